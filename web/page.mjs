// The page: form, runs, results, links, dropped files.

import { kindOf, readCase } from "./case.mjs";
import { byId, make } from "./dom.mjs";
import { Form, optionsOf, seedsOf } from "./form.mjs";
import { caseOf, fragment } from "./link.mjs";
import { showResults } from "./results.mjs";
import { Threads } from "./threads.mjs";

/** What is shown at first. */
const FIRST = { schedulers: [{ name: "o1", settings: {} }], workload: "chat", cpus: "4", seeds: "1" };

/** Seconds that a view or a list may take. Chosen. */
const VIEWING = 120;

const threads = new Threads();
const viewing = new Threads();
let form;
/** The case that ran last, or that came with a link: its hashes are compared. */
let given = null;
/** Objects that a case file names, by place. */
let wanted = [];
let running = 0;

const status = (text) => { byId("status").textContent = text; };

function failed(text) {
    byId("error").hidden = !text;
    byId("error").textContent = text;
}

function notes(words) {
    byId("notes").hidden = !words.length;
    byId("notes").replaceChildren(...words.map((text) => make("li", { text })));
}

const seconds = (since) => ((performance.now() - since) / 1000).toFixed(1);

function limitOf(text) {
    const limit = Number(text);
    if (!(limit > 0) || limit > 86_400) throw new Error(`time limit ${text}: write seconds, 1 to 86400`);
    return limit;
}

/** What makes a case the same as another: all but its hashes. */
const same = async (one, other) => await fragment({ ...one, hashes: [] }) === await fragment({ ...other, hashes: [] });

/** Runs the case of the form. */
async function start() {
    const own = ++running;
    failed("");
    threads.stop();
    let timer = 0;
    try {
        const test = form.get();
        const seeds = seedsOf(test.seeds);
        const limit = limitOf(byId("limit").value);
        if (given && await same(given, test)) test.hashes = given.hashes;
        const total = test.schedulers.length * seeds.length;
        // The views are those of the first seed.
        const asked = test.schedulers.map((_, at) => seeds.map((seed, place) => optionsOf(test, at, seed, place === 0)));
        const since = performance.now();
        let done = 0;
        status(total > 1 ? `Running ${total} runs.` : "Running.");
        // The clock is no part of the status, which a screen reader reads out.
        timer = setInterval(() => { byId("elapsed").textContent = `${total > 1 ? `${done} done, ` : ""}${seconds(since)} s`; }, 100);
        byId("stop").disabled = false;
        const jobs = asked.flat().map((options) => async () => {
            const answer = await threads.call(limit, "run", options);
            done++;
            return answer;
        });
        const all = await threads.all(jobs);
        if (own !== running) return;
        const answers = asked.map((of, at) => all.slice(at * seeds.length, at * seeds.length + of.length));
        showResults(byId("results"), test, seeds, answers, (record, ...options) => viewing.call(VIEWING, "view", record, ...options));
        status(`Done in ${seconds(since)} s.`);
        given = { ...test, hashes: answers.map(([first]) => first.traceHash) };
        await linked(given);
        if (matchMedia("(max-width: 60rem)").matches) byId("results").scrollIntoView();
    } catch (error) {
        if (own !== running) return;
        if (error.code === 130) status("Stopped.");
        else {
            status("");
            failed(error.message);
        }
    } finally {
        clearInterval(timer);
        if (own === running) byId("elapsed").textContent = "";
        if (own === running) byId("stop").disabled = true;
    }
}

/** Puts the case into the address, and says where that cannot be. */
async function linked(test) {
    const text = await fragment(test);
    if (text !== null) {
        history.replaceState(null, "", `#${text}`);
        return true;
    }
    history.replaceState(null, "", location.pathname + location.search);
    notes(["The case is too large for a link: pass on the object or the file besides."]);
    return false;
}

async function copyLink() {
    failed("");
    try {
        const test = form.get();
        if (given && await same(given, test)) test.hashes = given.hashes;
        if (!await linked(test)) return;
        await navigator.clipboard.writeText(location.href);
        status("The link is copied.");
    } catch (error) {
        if (error.name === "NotAllowedError" || error instanceof TypeError) status("The link is in the address bar.");
        else failed(error.message);
    }
}

/** Fills the form from the address and runs it. */
async function fromLink() {
    failed("");
    notes([]);
    try {
        const test = await caseOf(location.hash);
        if (!test) return false;
        wanted = [];
        await form.fill(test);
        // As the form writes it: what a short link leaves out is filled in.
        given = { ...form.get(), hashes: test.hashes };
        start();
    } catch (error) {
        failed(error.message);
    }
    return true;
}

const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** An object that was dropped: the one that a case waits for, else the scheduler on which it fell. */
async function takeObject(name, bytes, target) {
    const words = [];
    const missing = form.parts.findIndex((part) => part.later);
    const place = missing >= 0 ? missing : Number(target.closest?.("[data-scheduler]")?.dataset.scheduler ?? 0);
    const part = form.parts[place];
    if (!await part.take(name, bytes, part.later ?? {})) return false;
    if (given?.schedulers[place]) given.schedulers[place].object = bytes;
    const sha256 = wanted[place]?.sha256;
    if (sha256 && globalThis.crypto?.subtle && hex(await crypto.subtle.digest("SHA-256", bytes)) !== sha256) {
        words.push(`${name} is another object than that of the case, so the run may differ.`);
    }
    notes(words);
    return true;
}

async function takeFile(file, target) {
    const text = /\.o$/.test(file.name) ? "" : await file.text();
    const kind = kindOf(file.name, text);
    if (kind === "object") {
        if (!await takeObject(file.name, new Uint8Array(await file.arrayBuffer()), target)) return;
    } else if (kind === "case") {
        const { test, words, wanted: objects } = readCase(text);
        wanted = objects;
        await form.fill({ ...test, wanted });
        given = test;
        notes(words);
    } else if (kind === "machine" || kind === "workload") {
        const name = kind === "machine" ? "machine" : "workload";
        byId(`${name}-text`).value = text;
        if (kind === "machine") form.setMachine(byId("machine").lastElementChild.value);
        else form.setWorkload(byId("workload").lastElementChild.value);
        if (kind === "workload") form.workloadFile = file.name;
    } else {
        throw new Error(`${file.name}: neither an object (*.o), nor a workload, a machine or a case: drop one of these`);
    }
    if (kind !== "case") status(`${file.name} is in the form.`);
}

function listen() {
    byId("form").addEventListener("submit", (event) => {
        event.preventDefault();
        start();
    });
    byId("stop").addEventListener("click", () => threads.stop());
    // A jump by the address would end the case that stands there.
    document.querySelector(".skip").addEventListener("click", (event) => {
        event.preventDefault();
        byId("results").focus();
    });
    byId("copy-link").addEventListener("click", copyLink);
    document.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        start();
    });
    document.addEventListener("dragover", (event) => {
        event.preventDefault();
        document.body.classList.add("dropping");
    });
    document.addEventListener("dragleave", (event) => {
        if (!event.relatedTarget) document.body.classList.remove("dropping");
    });
    document.addEventListener("drop", async (event) => {
        event.preventDefault();
        document.body.classList.remove("dropping");
        failed("");
        notes([]);
        try {
            // Cases first: they say where an object belongs.
            const files = [...event.dataTransfer.files].sort((one, other) => /\.o$/.test(one.name) - /\.o$/.test(other.name));
            for (const file of files) await takeFile(file, event.target);
        } catch (error) {
            failed(error.message);
        }
    });
    addEventListener("hashchange", fromLink);
}

try {
    const lists = await viewing.call(VIEWING, "lists");
    byId("version").textContent = lists.version;
    form = new Form(lists, async (object) => (await viewing.call(VIEWING, "lists", object)).tunables, failed);
    await form.fill(FIRST);
    listen();
    byId("run").disabled = false;
    status("Ready.");
    await fromLink();
} catch (error) {
    status("");
    failed(`the laboratory could not be loaded: ${error.message}`);
}
