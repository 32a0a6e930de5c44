// The laboratory as an ES module: simulated runs in a browser, in a worker or in node. README.md says what it takes and gives.
//
// Everything happens in this module and in `schedlab.wasm`, which imports nothing: no request leaves it.

/** What a run, a view or a list was refused for, or what ended it. */
export class SchedlabError extends Error {
    /**
     * @param {string} message one line
     * @param {number} code the exit code that the command line has for it; 1 for a defect
     */
    constructor(message, code) {
        super(message);
        this.name = "SchedlabError";
        this.code = code;
    }
}

/** The text of the module, compiled once. */
let compiled = null;

/**
 * Compiles the WebAssembly; the first call of another function does it too.
 *
 * @param {BufferSource | WebAssembly.Module | URL | string} [source] its bytes, a module that another thread has compiled, or a
 *     place; without it, the file beside this one
 * @returns {Promise<WebAssembly.Module>} the module, which can be posted to workers
 */
export function load(source) {
    if (!compiled || source !== undefined) {
        compiled = compile(source ?? new URL("schedlab.wasm", import.meta.url));
        compiled.catch(() => { compiled = null; });
    }
    return compiled;
}

async function compile(source) {
    if (source instanceof WebAssembly.Module) return source;
    if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source);
    const place = new URL(source, import.meta.url);
    if (place.protocol === "file:") {
        const { readFile } = await import("node:fs/promises");
        return WebAssembly.compile(await readFile(place));
    }
    const answer = await fetch(place);
    if (!answer.ok) throw new SchedlabError(`${place}: ${answer.status} ${answer.statusText}`, 5);
    // Some servers do not know the type of WebAssembly, which compileStreaming() insists on.
    return WebAssembly.compile(await answer.arrayBuffer());
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Calls one function of a fresh instance, which its answer outlives: the answer's parts. */
async function call(name, ...inputs) {
    const instance = await WebAssembly.instantiate(await load());
    const { memory, give, last_words, [name]: asked } = instance.exports;
    // Addresses above 2 GiB are negative numbers here.
    const unsigned = (address) => address >>> 0;
    const parts = (address) => {
        const words = new DataView(memory.buffer);
        const count = words.getUint32(unsigned(address), true);
        let from = unsigned(address) + 4 * (count + 1);
        return Array.from({ length: count }, (_, at) => {
            const length = words.getUint32(unsigned(address) + 4 * (at + 1), true);
            const bytes = new Uint8Array(memory.buffer, from, length).slice();
            from += length;
            return bytes;
        });
    };
    let answer;
    try {
        const given = inputs.flatMap((bytes) => {
            const address = unsigned(give(bytes.length));
            new Uint8Array(memory.buffer, address, bytes.length).set(bytes);
            return [address, bytes.length];
        });
        answer = parts(asked(...given));
    } catch (trap) {
        if (!(trap instanceof WebAssembly.RuntimeError) && !(trap instanceof RangeError)) throw trap;
        let words = "";
        try {
            words = decoder.decode(parts(last_words())[0]);
        } catch {
            // The instance cannot even say it.
        }
        throw new SchedlabError(`the run ended by a defect or for want of memory: ${words || trap.message}`.replaceAll("\n", " "), 1);
    }
    const head = JSON.parse(decoder.decode(answer[0]));
    if (head.error !== undefined) throw new SchedlabError(head.error, head.code);
    return { head, parts: answer.slice(1) };
}

/** A request as the instance reads it: names with underscores, and nothing that was left out. */
function request(options) {
    const { object: _, workloadFile: workload_file, ...others } = options;
    return encoder.encode(JSON.stringify({ ...others, workload_file }));
}

function bytesOf(bytes) {
    if (bytes === undefined || bytes === null) return new Uint8Array(0);
    if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes);
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * Makes one simulated run.
 *
 * @param {object} options what to run; all of it is described in README.md
 * @param {string} [options.scheduler] a shipped scheduler (`o1`, `o1+swap`), or `eevdf`, the default; with `object` its name
 * @param {BufferSource} [options.object] a compiled scheduler (`*.bpf.o`)
 * @param {Object<string, string|number|boolean>} [options.settings] the scheduler's tunables
 * @param {string} options.workload a workload of the catalogue (`chat:rooms=2`), or the text of a workload file
 * @param {string} [options.workloadFile] the name of that file: `*.toml`, or `*.json` for rt-app
 * @param {string} [options.machine] a shipped machine, or the text of a machine file
 * @param {string} [options.kernel] the kernel to simulate: `6.12`, `debian-13`
 * @param {number} [options.cpus] how many CPUs
 * @param {number} [options.seed] the seed, 1 without it
 * @param {string} [options.duration] a limit of simulated time: `500ms`
 * @param {boolean} [options.checkers] whether invariants are checked
 * @param {boolean} [options.waits] whether it is explained what tasks waited for
 * @param {boolean} [options.record] whether a record is kept, for `view()`
 * @returns {Promise<{document: object, json: string, traceHash: string, code: number, failure: string|null,
 *     record: Uint8Array|null}>} what `schedlab sim --json` writes, parsed and as text
 */
export async function run(options) {
    const { head, parts } = await call("run", bytesOf(options.object), request(options));
    const json = decoder.decode(parts[0]);
    return {
        document: JSON.parse(json),
        json,
        traceHash: head.trace_hash,
        code: head.code,
        failure: head.failure,
        record: parts[1] ?? null,
    };
}

/** The views that are bytes and no text. */
const BINARY = ["perfetto"];

/**
 * Shows a record as `schedlab show --as` does.
 *
 * @param {Uint8Array} record the record of a run
 * @param {string} name table, json, csv, html, timeline, timehist, latency, perfetto, priorities, lines, waits or samples
 * @param {{verbose?: boolean, window?: string}} [options] all metrics; the part of the run that is drawn, `10ms..25ms`
 * @returns {Promise<string|Uint8Array>} the view; bytes for perfetto
 */
export async function view(record, name, options = {}) {
    const { parts } = await call("view", bytesOf(record), encoder.encode(JSON.stringify({ view: name, ...options })));
    return BINARY.includes(name) ? parts[0] : decoder.decode(parts[0]);
}

/**
 * What can be named in a run: schedulers with their tunables, workloads with their parameters, machines.
 *
 * @param {BufferSource} [object] a compiled scheduler: the list of its tunables in their place
 * @returns {Promise<object>} the lists
 */
export async function lists(object) {
    return (await call("lists", bytesOf(object))).head;
}
