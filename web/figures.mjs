// Figures of runs side by side: how they are written, and how two schedulers differ in them.

import { make, shown } from "./dom.mjs";

const SCALES = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

const digits = (value) => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e4) return Math.round(value).toLocaleString("en");
    return String(+value.toPrecision(4));
};

/** A figure with its unit. */
export function written(value, unit) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
    if (unit === "ns") {
        const [by, name] = SCALES.find(([by]) => Math.abs(value) >= by) ?? SCALES.at(-1);
        return `${digits(value / by)} ${name}`;
    }
    return unit && unit !== "1" ? `${digits(value)} ${unit}` : digits(value);
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The values of a metric over seeds; nothing if a run has none. */
const values = (runs, name) => {
    const all = runs.map((run) => run.metrics[name]?.value);
    return all.every((value) => typeof value === "number") ? all : null;
};

/** The names of standings, the best first. */
const STANDINGS = ["valid", "suspect", "void"];

/** The worst standing of runs, and the reasons of all of them. */
export function trust(runs) {
    const standing = STANDINGS[Math.max(...runs.map((run) => STANDINGS.indexOf(run.standing)))];
    return { standing, reasons: [...new Set(runs.flatMap((run) => run.standing_reasons))] };
}

function cell(found, unit) {
    if (!found) return make("td", { class: "n", text: "\u2013" });
    const words = written(mean(found), unit);
    const [low, high] = [Math.min(...found), Math.max(...found)];
    // The mean above has the unit; times have one each, by their size.
    const plain = unit === "ns" ? unit : "";
    if (low === high) return make("td", { class: "n", text: words });
    return make("td", { class: "n" }, words, make("small", { text: `${written(low, plain)} to ${written(high, plain)}` }));
}

/** How the second scheduler differs: the quotient of the means, and in how many seeds it is better, as far as runs can be trusted. */
function difference(one, other, better, { standing, reasons }) {
    if (!one || !other) return [make("td", { class: "n", text: "\u2013" }), make("td", { text: "" })];
    const [base, value] = [mean(one), mean(other)];
    const percent = base ? (100 * (value - base)) / Math.abs(base) : null;
    const sign = value > base ? "+" : "";
    let words = "0 %";
    if (percent === null && value !== base) words = "\u2013";
    else if (Math.abs(percent ?? 0) >= 0.05) words = `${sign}${digits(+percent.toFixed(1))} %`;
    const gains = one.map((before, at) => Math.sign(other[at] - before) * (better === "lower" ? -1 : 1));
    const [wins, losses] = [gains.filter((gain) => gain > 0).length, gains.filter((gain) => gain < 0).length];
    let verdict = "";
    // What is written as no difference is none.
    if (better !== "neither" && words !== "0 %") {
        if (one.length === 1) verdict = wins ? "better" : "worse";
        else if (wins === one.length || losses === one.length) verdict = `${wins ? "better" : "worse"} with all seeds`;
        else verdict = `better with ${wins} of ${one.length} seeds`;
    }
    if (verdict && standing === "void") verdict = "no verdict";
    if (verdict && standing !== "valid") verdict += ` (${standing}: ${reasons.join(", ")})`;
    const way = /^(better|worse)(?: with all seeds)?$/.exec(verdict)?.[1];
    return [make("td", { class: "n", text: words }), make("td", { class: `verdict ${way ?? ""}`, text: verdict })];
}

/** A name that may be broken behind its words. */
const breakable = (name) => shown(name).split(/(?<=_)/).flatMap((part) => [part, make("wbr")]);

/** Metrics that are seen at first; the others are folded up. Chosen. */
const FIRST = 12;

/**
 * The table of the metrics of one scheduler or two.
 *
 * @param {string[]} labels the schedulers
 * @param {object[][]} runs their runs of all seeds
 */
export function figures(labels, runs) {
    const names = [...new Set(runs.flatMap(([first]) => Object.keys(first.metrics)))];
    const trusted = trust(runs.flat());
    const columns = ["metric", ...labels, ...(labels.length > 1 ? ["difference", `${labels[1]} is`] : [])];
    const head = () => make("thead", {}, make("tr", {}, ...columns.map((name, at) =>
        make("th", { scope: "col", class: at && at !== columns.length - (labels.length > 1 ? 1 : 0) ? "n" : null, text: name }))));
    const row = (name) => {
        const { unit, better } = runs.map(([first]) => first.metrics[name]).find(Boolean);
        const found = runs.map((of) => values(of, name));
        const compared = labels.length > 1 ? difference(found[0], found[1], better, trusted) : [];
        const title = better === "neither" ? null : `${better} is better`;
        return make("tr", {}, make("th", { scope: "row", title }, ...breakable(name)), ...found.map((one) => cell(one, unit)), ...compared);
    };
    const table = (part) => make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Metrics" },
        make("table", {}, head(), make("tbody", {}, ...part.map(row))));
    const box = make("div", {}, table(names.slice(0, FIRST)));
    const rest = names.slice(FIRST);
    if (rest.length) box.append(make("details", {}, make("summary", { text: `${rest.length} more metrics` }), table(rest)));
    return box;
}
