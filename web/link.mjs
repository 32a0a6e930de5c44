// A case as the fragment of a link, and back. Names stay readable; objects and files are gzip in base64url.
//
// A case is `{schedulers: [{name, settings, object}], workload, workloadFile, machine, kernel, cpus, seeds, duration, checkers, hashes}`.
// `object` is bytes or nothing, `hashes` the trace hash of each scheduler's first seed, where it was run.

/** The longest fragment. Browsers take more, but what passes links on often does not. Chosen. */
const LONGEST = 1_400_000;

/** The most that a packed part may grow to: a link is not trusted. Chosen. */
const LARGEST = 64 << 20;

async function through(stream, bytes, most) {
    const writer = stream.writable.getWriter();
    // Failures of the writing side are those of the reading side too.
    writer.write(bytes).catch(() => {});
    writer.close().catch(() => {});
    const chunks = [];
    let size = 0;
    const reader = stream.readable.getReader();
    for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        size += value.length;
        if (size > most) {
            await reader.cancel();
            throw new Error("the link holds more than a page takes: ask for the files instead");
        }
        chunks.push(value);
    }
    const all = new Uint8Array(size);
    let at = 0;
    for (const chunk of chunks) {
        all.set(chunk, at);
        at += chunk.length;
    }
    return all;
}

async function packed(bytes) {
    const small = await through(new CompressionStream("gzip"), bytes, Infinity);
    let text = "";
    for (let at = 0; at < small.length; at += 0x8000) text += String.fromCharCode(...small.subarray(at, at + 0x8000));
    return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0));
    return through(new DecompressionStream("gzip"), bytes, LARGEST);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Whether a value is the content of a file rather than a name: as the module decides. */
export const isText = (value) => value.includes("\n");

const named = async (fields, name, value) => {
    if (!value) return;
    if (isText(value)) fields.append(`${name}t`, await packed(encoder.encode(value)));
    else fields.append(name, value);
};

const nameOf = async (fields, name) => {
    const text = fields.get(`${name}t`);
    return text === null ? fields.get(name) : decoder.decode(await unpacked(text));
};

/**
 * The fragment of a case, without its `#`.
 *
 * @returns {Promise<string|null>} nothing where the case is too large for a link
 */
export async function fragment(test) {
    const fields = new URLSearchParams();
    for (const [at, { name, settings, object }] of test.schedulers.entries()) {
        const number = at ? String(at + 1) : "";
        fields.append(`s${number}`, name);
        for (const [setting, value] of Object.entries(settings)) fields.append(`set${number}`, `${setting}=${value}`);
        if (object) fields.append(`object${number}`, await packed(object));
        if (test.hashes?.[at]) fields.append(`hash${number}`, test.hashes[at]);
    }
    await named(fields, "w", test.workload);
    if (test.workloadFile) fields.append("wfile", test.workloadFile);
    await named(fields, "m", test.machine);
    for (const name of ["kernel", "cpus", "seeds", "duration"]) if (test[name]) fields.append(name, String(test[name]));
    if (test.checkers) fields.append("checkers", "1");
    // These signs may stand in a fragment, and names are full of them.
    const text = fields.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%3D", "=");
    return text.length > LONGEST ? null : text;
}

/**
 * The case of a fragment.
 *
 * @returns {Promise<object|null>} nothing where the fragment has none
 * @throws an error of one line, where it has a broken one
 */
export async function caseOf(text) {
    const fields = new URLSearchParams(text.replace(/^#/, ""));
    if (!fields.has("s")) return null;
    try {
        const test = { schedulers: [], hashes: [] };
        for (const number of ["", "2"]) {
            const name = fields.get(`s${number}`);
            if (name === null) break;
            const settings = {};
            for (const setting of fields.getAll(`set${number}`)) {
                const at = setting.indexOf("=");
                settings[setting.slice(0, at)] = setting.slice(at + 1);
            }
            const object = fields.get(`object${number}`);
            test.schedulers.push({ name, settings, object: object === null ? null : await unpacked(object) });
            test.hashes.push(fields.get(`hash${number}`));
        }
        test.workload = await nameOf(fields, "w") ?? "chat";
        test.workloadFile = fields.get("wfile");
        test.machine = await nameOf(fields, "m");
        for (const name of ["kernel", "duration", "cpus", "seeds"]) test[name] = fields.get(name);
        test.checkers = fields.has("checkers");
        return test;
    } catch (error) {
        const words = /^the link/.test(error.message) ? error.message : "the link is incomplete: copy the whole of it again";
        throw new Error(words);
    }
}
