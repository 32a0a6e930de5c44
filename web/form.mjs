// The form: what runs, as a case that links have (link.mjs).

import { byId, make } from "./dom.mjs";
import { isText } from "./link.mjs";

/** The choice that stands for a file or an object of the reader's own. */
const OWN = ":own";

const EXAMPLE = `name = "two-kinds"
about = "a task that computes, and one that wakes up every 10 ms"
end = "1s"

[programs]
hog = ["repeat forever", "run 1ms", "done"]
waker = ["repeat forever", "timer 0 10ms", "run 500us", "done"]

[[tasks]]
name = "hog"
program = "hog"
count = 4

[[tasks]]
name = "waker"
program = "waker"
`;

const option = (value, text) => make("option", { value, text });

/** Inputs by name in a grid: of tunables and of parameters. */
function inputs(grid, prefix, entries, values) {
    grid.replaceChildren(...entries.map(({ name, shown, meaning, choices }) => {
        const id = `${prefix}-${name}`;
        const given = values[name] ?? "";
        const input = choices?.length
            ? make("select", { id }, option("", `${shown} (default)`), ...choices.map((choice) => option(choice, choice)))
            : make("input", { id, placeholder: shown, autocomplete: "off", spellcheck: "false" });
        // A value that is not among the choices is refused by the module, with its reason.
        if (choices?.length && given && !choices.includes(given)) input.append(option(given, given));
        input.value = given;
        input.dataset.name = name;
        input.setAttribute("aria-describedby", `${id}-about`);
        return make("div", {}, make("label", { for: id, text: name }), input, make("p", { class: "about", id: `${id}-about`, text: meaning }));
    }));
}

const given = (grid) => Object.fromEntries(
    [...grid.querySelectorAll("[data-name]")].map((input) => [input.dataset.name, input.value.trim()]).filter(([, value]) => value));

/** One scheduler of the form. */
class SchedulerPart {
    constructor(at, shipped, tunablesOf, failed) {
        Object.assign(this, { at, shipped, tunablesOf, failed, object: null, name: null, later: null });
        this.select = byId(`scheduler${at}`);
        this.file = byId(`object${at}`);
        const box = this.select.closest("fieldset");
        this.tunables = box.querySelector(".tunables");
        this.grid = this.tunables.querySelector(".grid");
        const group = (label, names) => make("optgroup", { label }, ...names.map((name) => option(name, name)));
        const names = shipped.map(({ name }) => name);
        if (at) this.select.append(option("", "none"));
        this.select.append(group("shipped", names.filter((name) => !name.includes("+"))), group("with SWAP", names.filter((name) => name.includes("+"))));
        this.select.addEventListener("change", () => this.set(this.select.value));
        this.file.addEventListener("change", async () => {
            const [file] = this.file.files;
            if (file) await this.take(file.name, new Uint8Array(await file.arrayBuffer()), {});
        });
    }

    /** Shows an object; tunables that it does not have are dropped when it is read. */
    async take(name, object, settings) {
        let tunables;
        try {
            tunables = await this.tunablesOf(object);
        } catch (error) {
            this.failed(`${name}: ${error.message}`);
            return false;
        }
        this.object = object;
        this.name = name;
        this.later = null;
        this.own(name);
        this.show(tunables, settings, `${name}, ${object.length.toLocaleString("en")} bytes`);
        return true;
    }

    /** The entry of an object in the list, selected. */
    own(name) {
        this.select.querySelector(`option[value="${OWN}"]`)?.remove();
        this.select.append(option(OWN, name));
        this.select.value = OWN;
    }

    /** An object that the case names and that is not here yet; its settings wait for it. */
    await(name, settings) {
        this.object = null;
        this.name = name;
        this.own(name);
        this.show([], {}, "The object is not here yet: drop it on this page.");
        this.later = settings;
    }

    set(name, settings = {}) {
        if (name === OWN) return;
        this.select.querySelector(`option[value="${OWN}"]`)?.remove();
        this.select.value = name;
        this.object = this.name = this.later = null;
        this.file.value = "";
        const found = this.shipped.find((one) => one.name === name);
        if (name && !found) throw new Error(`there is no scheduler named '${name}' in this page`);
        this.show(found?.tunables ?? [], settings, found?.about ?? "");
    }

    show(tunables, settings, about) {
        byId(`scheduler${this.at}-about`).textContent = about;
        const words = (one) => [one.meaning, one.takes].filter(Boolean).join(" \u2014 ");
        // A setting of another object stays to be seen, and the module refuses it by name.
        const others = Object.keys(settings).filter((name) => !tunables.some((one) => one.name === name));
        const entries = tunables.concat(others.map((name) => ({ name, default: "", meaning: "", takes: "", values: [] })));
        inputs(this.grid, `set${this.at}`, entries.map((one) => ({ name: one.name, shown: one.default, meaning: words(one), choices: one.values })), settings);
        this.tunables.hidden = !entries.length;
        this.tunables.querySelector("summary").textContent = `Tunables (${entries.length})`;
        if (Object.keys(settings).length) this.tunables.open = true;
    }

    get() {
        if (!this.select.value) return null;
        const own = this.select.value === OWN;
        if (own && !this.object) throw new Error(`the object ${this.name} is not here: drop it on this page, or choose another scheduler`);
        return { name: own ? this.name : this.select.value, settings: given(this.grid), object: own ? this.object : null };
    }
}

/** The whole form. */
export class Form {
    /**
     * @param {object} lists what can be named
     * @param {(object: Uint8Array) => Promise<object[]>} tunablesOf the tunables of an object
     * @param {(words: string) => void} failed shows a refusal
     */
    constructor(lists, tunablesOf, failed) {
        this.lists = lists;
        this.parts = [0, 1].map((at) => new SchedulerPart(at, lists.schedulers, tunablesOf, failed));
        this.workload = byId("workload");
        this.workload.append(...lists.workloads.map(({ name }) => option(name, name)), option(OWN, "a workload file"));
        this.workload.addEventListener("change", () => this.setWorkload(this.workload.value));
        this.machine = byId("machine");
        this.machine.append(...lists.machines.map(({ name }) => option(name, name)), option(OWN, "a machine file"));
        this.machine.addEventListener("change", () => this.setMachine(this.machine.value));
        byId("workload-text").value = EXAMPLE;
        this.workloadFile = null;
        byId("workload-text").addEventListener("input", () => { this.workloadFile = null; });
    }

    setWorkload(name, values = {}) {
        const found = this.lists.workloads.find((one) => one.name === name);
        if (!found && name !== OWN) throw new Error(`there is no workload named '${name}' in this page`);
        this.workload.value = name;
        byId("workload-file").hidden = !!found;
        byId("params").hidden = !found?.params.length;
        byId("workload-about").textContent = found?.about ?? "";
        const known = found?.params ?? [];
        const others = Object.keys(values).filter((name) => !known.some((one) => one.name === name));
        const entries = known.concat(others.map((name) => ({ name, default: "", about: "" })));
        inputs(byId("params").querySelector(".grid"), "param", entries.map((one) => ({ name: one.name, shown: one.default, meaning: one.about })), values);
        byId("params").querySelector("summary").textContent = `Parameters (${entries.length})`;
        if (Object.keys(values).length) byId("params").open = true;
    }

    setMachine(name) {
        const found = this.lists.machines.find((one) => one.name === name);
        if (!found && name !== OWN) throw new Error(`there is no machine named '${name}' in this page`);
        this.machine.value = name;
        byId("machine-file").hidden = !!found;
        byId("machine-about").textContent = found?.about ?? "";
        byId("cpus").placeholder = found ? String(found.cpus) : "the file's";
        byId("kernel").placeholder = found?.kernel ?? "the file's";
    }

    /** Fills the form; what a case does not say is as at first. */
    async fill(test) {
        for (const [at, part] of this.parts.entries()) {
            const { name, settings = {}, object } = test.schedulers[at] ?? { name: "" };
            if (object) await part.take(name, object, settings);
            else if (name && test.wanted?.[at]) part.await(name, settings);
            else part.set(name, settings);
        }
        if (isText(test.workload)) {
            this.setWorkload(OWN);
            byId("workload-text").value = test.workload;
            this.workloadFile = test.workloadFile ?? null;
        } else {
            const [name, params = ""] = test.workload.split(/:(.*)/s);
            const pairs = params.split(",").filter(Boolean).map((pair) => pair.split(/=(.*)/s).slice(0, 2));
            this.setWorkload(name, Object.fromEntries(pairs));
        }
        const machine = test.machine || this.lists.machines.find((one) => one.default).name;
        if (isText(machine)) byId("machine-text").value = machine;
        this.setMachine(isText(machine) ? OWN : machine);
        for (const name of ["cpus", "kernel", "duration"]) byId(name).value = test[name] ?? "";
        byId("seeds").value = test.seeds ?? "1";
        byId("checkers").checked = !!test.checkers;
    }

    /** The case of the form. */
    get() {
        const text = (id) => byId(id).value.trim();
        const own = this.workload.value === OWN;
        const params = Object.entries(given(byId("params"))).map(([name, value]) => `${name}=${value}`).join(",");
        const file = (id, what) => {
            const value = byId(id).value;
            if (!value.trim()) throw new Error(`the ${what} is empty: write one, or choose a shipped one`);
            // The module takes what has a line break as text.
            return isText(value) ? value : `${value}\n`;
        };
        return {
            schedulers: this.parts.map((part) => part.get()).filter(Boolean),
            workload: own ? file("workload-text", "workload file") : this.workload.value + (params && `:${params}`),
            workloadFile: own ? this.workloadFile : null,
            machine: this.machine.value === OWN ? file("machine-text", "machine file") : this.machine.value,
            kernel: text("kernel"),
            cpus: text("cpus"),
            seeds: text("seeds") || "1",
            duration: text("duration"),
            checkers: byId("checkers").checked,
        };
    }
}

/** Seeds at once. Chosen. */
const MOST_SEEDS = 32;

/** The numbers of `1..3` or `1,4`. */
export function seedsOf(text) {
    const seeds = text.split(",").flatMap((part) => {
        const [, from, to] = /^\s*(\d+)\s*(?:\.\.\s*(\d+)\s*)?$/.exec(part) ?? [];
        const [first, last] = [Number(from), Number(to ?? from)];
        if (from === undefined || last < first) throw new Error(`seeds ${text}: write 1, 1..5 or 1,3,9`);
        if (last > Number.MAX_SAFE_INTEGER) throw new Error(`seed ${part}: a page takes seeds up to ${Number.MAX_SAFE_INTEGER}`);
        if (last - first >= MOST_SEEDS) throw new Error(`seeds ${text}: a page takes ${MOST_SEEDS} at once`);
        return Array.from({ length: last - first + 1 }, (_, at) => first + at);
    });
    if (seeds.length > MOST_SEEDS) throw new Error(`seeds ${text}: a page takes ${MOST_SEEDS} at once`);
    return seeds;
}

/** What `run()` takes for one scheduler and one seed of a case. */
export function optionsOf(test, at, seed, record) {
    const { name, settings, object } = test.schedulers[at];
    const options = { scheduler: name, settings, workload: test.workload, machine: test.machine, seed, checkers: test.checkers, record };
    if (object) options.object = object;
    if (test.workloadFile) options.workloadFile = test.workloadFile;
    if (test.kernel) options.kernel = test.kernel;
    if (test.duration) options.duration = test.duration;
    if (test.cpus) {
        const cpus = Number(test.cpus);
        if (!Number.isInteger(cpus) || cpus < 1) throw new Error(`CPUs ${test.cpus}: write a number, 1 or more`);
        options.cpus = cpus;
    }
    return options;
}
