// What a dropped file is, and what a case file of `schedlab hunt` says.
//
// The reader of TOML knows what case files have: tables, strings, numbers, lists. Workload and machine files stay text.

/** One value at a place of a text: the value, and the place behind it. */
function valueAt(text, at) {
    for (const [mark, basic] of [['"""', true], ["'''", false]]) {
        if (!text.startsWith(mark, at)) continue;
        const end = text.indexOf(mark, at + 3);
        if (end < 0) throw new Error(`${mark} has no end`);
        const raw = text.slice(at + 3, end).replace(/^\r?\n/, "");
        return [basic ? JSON.parse(`"${raw.replaceAll(/\n/g, "\\n").replaceAll("\t", "\\t")}"`) : raw, end + 3];
    }
    if (text[at] === "'") {
        const end = text.indexOf("'", at + 1);
        return [text.slice(at + 1, end), end + 1];
    }
    if (text[at] === '"') {
        const [raw] = /^"(?:[^"\\]|\\.)*"/.exec(text.slice(at));
        return [JSON.parse(raw), at + raw.length];
    }
    if (text[at] === "[") {
        const list = [];
        let place = at + 1;
        for (;;) {
            place += /^[\s,]*/.exec(text.slice(place))[0].length;
            if (text[place] === "]") return [list, place + 1];
            if (place >= text.length) throw new Error("a list has no end");
            const [value, next] = valueAt(text, place);
            list.push(value);
            place = next;
        }
    }
    const [word] = /^[^\s,\]#]+/.exec(text.slice(at)) ?? [""];
    if (!word) throw new Error("a value is missing");
    const number = Number(word.replaceAll("_", ""));
    // A larger number stays text, with all its digits.
    return [/^[-+]?[\d_]+$/.test(word) && Number.isSafeInteger(number) ? number : word, at + word.length];
}

/** The keys of a case file, those of tables as `table.key`. */
function keysOf(text) {
    const keys = {};
    let table = "", at = 0;
    while (at < text.length) {
        at += /^(?:\s|#[^\n]*)*/.exec(text.slice(at))[0].length;
        const rest = text.slice(at);
        const head = /^\[+([^\]\n]+)\]+/.exec(rest);
        const key = /^([\w-]+)\s*=\s*/.exec(rest);
        if (head) {
            table = `${head[1].trim()}.`;
            at += head[0].length;
        } else if (key) {
            const [value, next] = valueAt(text, at + key[0].length);
            keys[table + key[1]] = value;
            at = next;
        } else if (rest) {
            throw new Error(`no key at '${rest.slice(0, 20).split("\n")[0]}'`);
        }
    }
    return keys;
}

/** A file's kind by its name and its first words: object, case, workload or machine. */
export function kindOf(name, text) {
    if (/\.o$/.test(name)) return "object";
    if (/\.json$/.test(name) || /^\s*\{/.test(text)) return "workload";
    if (/^\[scheduler\]/m.test(text) && /^property\s*=/m.test(text)) return "case";
    // A workload inside a case has these too, so a case is asked for first.
    if (/^\[machine\]/m.test(text)) return "machine";
    if (/^\[\[tasks\]\]/m.test(text)) return "workload";
    return "unknown";
}

const base = (path) => path.split("/").pop();

/**
 * Reads a case file.
 *
 * @returns {{test: object, words: string[], wanted: string[]}} the case as links have it, what is to be said of it, and the
 *     objects that it needs (`{name, sha256}` by place)
 */
export function readCase(text) {
    const keys = keysOf(text);
    const test = { schedulers: [], hashes: [], checkers: true, seeds: String(keys.seed ?? 1), kernel: keys.kernel ?? null };
    const words = [], wanted = [];
    for (const table of ["scheduler", "against"]) {
        const name = keys[`${table}.name`];
        if (name === undefined) continue;
        const sha256 = keys[`${table}.sha256`];
        const foreign = name.includes("/") || /\.o$/.test(name);
        test.schedulers.push({ name: foreign ? base(name) : name, settings: Object.fromEntries(keys[`${table}.settings`] ?? []), object: null });
        wanted.push(foreign ? { name: base(name), sha256 } : null);
        if (foreign) words.push(`The case needs the object ${base(name)}: drop it here too.`);
    }
    if (keys.saw) words.unshift(`The case shows ${keys.property}: ${keys.saw}.`);
    // A saved hash is that of the first scheduler.
    const left = ["interleave", "attach_ns", "detach_ns"].filter((name) => keys[name] !== undefined);
    if (left.length) words.push(`A page cannot repeat ${left.join(", ")} of it, so the run differs from that of schedlab sim --case.`);
    else if (keys.trace) test.hashes.push(keys.trace);
    test.workload = keys.workload;
    test.workloadFile = "workload.toml";
    test.machine = keys.machine;
    return { test, words, wanted };
}
