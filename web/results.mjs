// The results of a case: hashes, figures side by side, and the views of a record.

import { framed, make, offer, shown, tabbed } from "./dom.mjs";
import { figures, trust, written } from "./figures.mjs";

/** Lines of a long view that are put into the page at once. Chosen. */
const LINES = 2000;

/** The runs' heading: what ran. */
function heading(test, first, seeds) {
    const { workload, machine, cpus } = first;
    const names = test.schedulers.map(({ name }) => name).join(" against ");
    const what = seeds.length > 1 ? `seeds ${test.seeds}` : `seed ${seeds[0]}`;
    return make("h2", { text: `${names}: ${workload.name} on ${machine}, ${cpus} CPU${cpus === 1 ? "" : "s"}, ${what}` });
}

function copier(text, what) {
    const button = make("button", { type: "button", class: "small", text: "Copy", "aria-label": `Copy ${what}` });
    button.addEventListener("click", async () => {
        try {
            await navigator.clipboard.writeText(text);
            button.textContent = "Copied";
        } catch {
            // Without a secure context there is no clipboard; the text can be selected.
            button.textContent = "Select it";
        }
    });
    return button;
}

/** One scheduler's hash, the standing of its runs, and how its hash compares with the one that came with the case. */
function card(name, answer, runs, expected) {
    const { standing, reasons } = trust(runs);
    const why = reasons.length ? ` (${reasons.join(", ")})` : "";
    const box = make("div", { class: "card" },
        make("h3", { text: name }),
        make("p", {}, "trace ", make("code", { class: "hash", text: answer.traceHash }), " ", copier(answer.traceHash, `the trace hash of ${name}`)),
        make("p", {}, "standing ", make("strong", { class: `standing ${standing}`, text: standing }), shown(why)));
    if (expected) {
        const same = expected === answer.traceHash;
        const words = same ? "The hash is that of the link." : `The hash differs from that of the link, ${expected}: another version of schedlab made it.`;
        box.append(make("p", { class: same ? "same" : "differs", text: words }));
    }
    return box;
}

/** What the figures alone do not tell. */
function warnings(runs) {
    const texts = [...new Set(runs.flat().flatMap((run) => run.warnings.map(({ text }) => text)))];
    if (!texts.length) return [];
    return [make("details", { open: texts.length < 4 }, make("summary", { text: `${texts.length} warning${texts.length > 1 ? "s" : ""}` }),
        make("ul", {}, ...texts.map((text) => make("li", { text }))))];
}

/** How far simulated figures are known to be right. */
function validation({ validation: known }) {
    if (!known || known.validated) return [];
    return [make("p", { class: "about", text: `Not validated: ${known.reason}.` })];
}

const pre = (text) => make("pre", { tabindex: 0, text });

/** A long text; what does not fit is offered as a file. */
function long(panel, name, text) {
    const end = text.split("\n", LINES).join("\n").length;
    panel.replaceChildren(pre(text.slice(0, end)));
    if (end >= text.length - 1) return;
    panel.append(make("p", {}, `The first ${LINES} lines. `,
        make("button", { type: "button", text: "Save all of it", onclick: () => offer(name, text, "text/plain") })));
}

/** Fills a panel when a view is there, or with the reason why there is none. */
async function filled(panel, made) {
    panel.replaceChildren(make("p", { class: "about", text: "Being drawn." }));
    panel.setAttribute("aria-busy", "true");
    try {
        await made(panel);
    } catch (error) {
        panel.replaceChildren(make("p", { text: error.message }));
    }
    panel.removeAttribute("aria-busy");
}

/** What the scheduler printed, and its own program. */
function messages({ printed, printed_left_out: more, loader_output: output }) {
    const lines = (printed ?? []).map(({ time_ns: time, cpu, task, text }) =>
        `${(time / 1e9).toFixed(6)}  CPU ${cpu}  ${task || "<idle>"}: ${text.trimEnd()}`);
    if (more) lines.push(`... and ${more} more`);
    return [...lines, output ?? ""].join("\n").trim();
}

function ending(run) {
    const { kind, reason, message, dump, after_ns: after } = run.exit;
    const facts = [["how", kind], ["reason", reason], ["message", message], ["after", after === undefined ? "" : written(after, "ns")]];
    const box = make("div", {}, make("dl", { class: "facts" }, ...facts.filter(([, value]) => value).flatMap(([name, value]) =>
        [make("dt", { text: name }), make("dd", { text: value })])));
    if (dump) box.append(make("h4", { text: "State of the kernel then" }), pre(dump));
    return box;
}

function downloads(name, answer, view) {
    const file = `${name.replaceAll(/[^\w.+-]/g, "-")}-seed${answer.document.runs[0].seed}`;
    const button = (text, action) => make("button", { type: "button", text, onclick: action });
    const box = make("div", { class: "downloads" }, button("Results (JSON)", () => offer(`${file}.json`, answer.json, "application/json")));
    const words = make("p", { role: "status" });
    const viewed = (text, as, end, type) => button(text, async () => {
        try {
            words.textContent = "";
            offer(`${file}.${end}`, await view(as), type);
        } catch (error) {
            words.textContent = error.message;
        }
    });
    if (answer.record) {
        box.append(
            viewed("Metrics (CSV)", "csv", "csv", "text/csv"),
            viewed("Report (HTML)", "html", "html", "text/html"),
            viewed("Trace for Perfetto", "perfetto", "pftrace", "application/octet-stream"),
            viewed("History of switches", "timehist", "timehist", "text/plain"),
            button("Record", () => offer(`${file}.record`, answer.record, "application/octet-stream")));
    }
    return make("div", {}, box, words,
        make("p", { class: "about" }, "The results are the file that the command writes: ", make("code", { text: "schedlab sim --engine interpreted --json" }), ". ",
            "A record is read by ", make("code", { text: "schedlab show" }), "."));
}

/** The tabs of one scheduler's run. */
function views(name, answer, view) {
    const run = answer.document.runs[0];
    const printed = messages(run);
    const page = (as, height) => (panel) => filled(panel, async () => panel.replaceChildren(framed(`${as} of ${name}`, await view(as), height)));
    const text = (as, options) => (panel) => filled(panel, async () => long(panel, `${name}.${as}.txt`, await view(as, options)));
    // The page around the lanes has a heading and facts.
    const lanes = `${32 + 1.8 * run.cpus}rem`;
    const ended = { name: answer.failure ? "Ejection" : "Exit", fill: (panel) => panel.append(ending(run)) };
    const tabs = [
        { name: "Timeline", fill: page("timeline", lanes) },
        { name: "Latencies", fill: text("latency") },
        { name: "Waits", fill: text("waits") },
        { name: "Report", fill: page("html", "80vh") },
        { name: "Text", fill: text("table", { verbose: true }) },
        ...(printed ? [{ name: "Messages", fill: (panel) => long(panel, `${name}.messages.txt`, printed) }] : []),
        ...(answer.failure ? [] : [ended]),
        { name: "Files", fill: (panel) => panel.append(downloads(name, answer, view)) },
    ];
    // The reason comes first where there is one.
    return tabbed(`Views of ${name}`, answer.failure ? [ended, ...tabs] : tabs);
}

/**
 * Shows the results of a case.
 *
 * @param {HTMLElement} box where
 * @param {object} test the case
 * @param {number[]} seeds its seeds
 * @param {object[][]} answers what `run()` gave, by scheduler and seed
 * @param {(record: Uint8Array, name: string, options?: object) => Promise<string|Uint8Array>} view makes a view
 */
export function showResults(box, test, seeds, answers, view) {
    const names = test.schedulers.map(({ name }) => name);
    const runs = answers.map((of) => of.map(({ document }) => document.runs[0]));
    const failed = answers.flatMap((of) => of.filter(({ failure }) => failure).slice(0, 1));
    const several = names.length > 1;
    const labels = several && names[0] === names[1] ? names.map((name, at) => `${name} (${at + 1})`) : names;
    const place = make("div", {});
    const shownViews = new Map();
    const choose = (at) => {
        if (!shownViews.has(at)) shownViews.set(at, views(labels[at], answers[at][0], (name, options) => view(answers[at][0].record, name, options)));
        place.replaceChildren(shownViews.get(at));
    };
    const choice = several ? [make("fieldset", { class: "choice" }, make("legend", { text: `Views of seed ${seeds[0]}` }),
        ...labels.map((name, at) => {
            const input = make("input", { type: "radio", name: "viewed", id: `viewed${at}`, checked: at === 0, onchange: () => choose(at) });
            return make("label", { for: `viewed${at}` }, input, " ", shown(name));
        }))] : [];
    box.replaceChildren(
        heading(test, runs[0][0], seeds),
        ...failed.map(({ failure }) => make("p", { class: "alert", text: failure })),
        make("div", { class: "cards" }, ...labels.map((name, at) => card(name, answers[at][0], runs[at], test.hashes?.[at]))),
        ...warnings(runs),
        figures(labels, runs),
        ...validation(runs[0][0]),
        ...(several && seeds.length === 1 ? [make("p", { class: "about", text: "One seed shows no spread: give several, such as 1..5, before a difference counts." })] : []),
        ...choice, place);
    choose(0);
}
