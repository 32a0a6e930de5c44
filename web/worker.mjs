// One thread for runs, so that a page stays awake and can stop one: it ends the worker.
//
// A message is `{id, call: "run" | "view" | "lists", args: [...]}`, or first `{module}` with what `load()` takes. The answer is
// `{id, value}` or `{id, error, code}`.

import { lists, load, run, view } from "./schedlab.mjs";

const calls = { run, view, lists };

self.onmessage = async ({ data }) => {
    if (data.module !== undefined) {
        load(data.module);
        return;
    }
    const { id, call, args } = data;
    try {
        self.postMessage({ id, value: await calls[call](...args) });
    } catch (error) {
        self.postMessage({ id, error: error.message, code: error.code ?? 1 });
    }
};
