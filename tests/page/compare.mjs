// Makes runs in WebAssembly and compares them with what the command wrote. A line of JSON for each case that differs, then a
// summary. Arguments: the folder of the module, and a file with the cases.
//
// A case is `{name, options, object, json, code}`: the options of `run()`, the paths of an object and of the command's document,
// and its exit code.

import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [folder, file] = process.argv.slice(2);
const { load, run } = await import(pathToFileURL(`${folder}/schedlab.mjs`));
await load(await readFile(`${folder}/schedlab.wasm`));

/** The first place at which two texts differ, with what is around it. */
function difference(one, other) {
    let at = 0;
    while (at < one.length && one[at] === other[at]) at++;
    const around = (text) => text.slice(Math.max(0, at - 60), at + 60);
    return `at ${at}: ${JSON.stringify(around(one))} against ${JSON.stringify(around(other))}`;
}

let same = 0;
for (const { name, options, object, json, code } of JSON.parse(await readFile(file, "utf8"))) {
    const told = (problem) => console.log(JSON.stringify({ name, problem }));
    if (object) options.object = await readFile(object);
    const native = json ? await readFile(json, "utf8").catch(() => null) : null;
    try {
        const answer = await run(options);
        const hash = native && JSON.parse(native).runs[0].trace_hash;
        if (answer.code !== code) told(`exit code ${answer.code}, the command's is ${code}`);
        else if (native === null) told("the command wrote nothing");
        else if (answer.traceHash !== hash) told(`trace hash ${answer.traceHash}, the command's is ${hash}`);
        else if (answer.json !== native) told(difference(answer.json, native));
        else same++;
    } catch (error) {
        if (error.code === code && native === null) same++;
        else told(`${error.message} (code ${error.code}, the command's is ${code})`);
    }
}
console.log(JSON.stringify({ same }));
