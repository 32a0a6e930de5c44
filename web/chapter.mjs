// The chapter: below each picture a few runs of its kind, made in this page when they come into view.
//
// The pictures are made of longer runs and several seeds. These runs are smaller, so that a reader waits for seconds.

import { byId, framed, make } from "./dom.mjs";
import { figures } from "./figures.mjs";
import { fragment } from "./link.mjs";
import { Threads } from "./threads.mjs";

const vanilla = { name: "vanilla", settings: { profile: "tsss" } };
const o1 = { name: "o1", settings: { profile: "d1" } };
const hamq = { name: "hamq", settings: {} };
const current = { name: "vanilla", settings: { kernel_threads: "1", prev_wins_ties: "1" } };
const proposed = { name: "libenzi", settings: { kernel_threads: "1" } };
const linux = { name: "o1", settings: { profile: "rh8" } };
const swap = { name: "o1+swap", settings: { profile: "rh8", detect: "paper" } };
const bsd4 = { name: "bsd4", settings: { profile: "5.x", interrupt_names: "swi" } };
const ule = { name: "ule", settings: { profile: "5.2", interrupt_names: "swi" } };
const linux26 = { name: "o1", settings: { profile: "2.6.10" } };
const stairs = { name: "staircase", settings: { interactive: "1" } };

/** The runs of each picture: two schedulers with what differs, and the words above them. */
const LIVE = {
    "libenzi-keyboard": { words: "A key is held while two hogs compute for 2 s.", schedulers: [current, proposed], workload: "keyboard:ntasks=2,ttime=2s", machine: "athlon-1000" },
    "libenzi-hogs": { words: "Three hogs on two CPUs, for 2 s.", schedulers: [current, proposed], workload: "cpuhog:ntasks=3,ttime=2s", machine: "dual-p3-733" },
    "kravetz-chat-growth": { words: "Ten rooms with two messages a user on eight CPUs: one list against a list for each CPU.", schedulers: [vanilla, o1], workload: "chat:rooms=10,messages=2", machine: "p3-700", cpus: "8" },
    "kravetz-chat": { words: "The same with haMQ, on four CPUs.", schedulers: [vanilla, hamq], workload: "chat:rooms=10,messages=2", machine: "p3-700", cpus: "4" },
    "kravetz-reflex": { words: "A token among 32 tasks, 500 rounds on four CPUs.", schedulers: [vanilla, o1], workload: "reflex:tasks=32,rounds=500", machine: "p3-700", cpus: "4" },
    "kravetz-mkbench": { words: "Four builds on two CPUs, a hundredth of their length.", schedulers: [o1, hamq], workload: "mkbench:makes=4,scale=0.01", machine: "p3-700", cpus: "2" },
    "swap-fig2": { words: "A client waits for its server on a semaphore, among ten hogs; 20 iterations.", schedulers: [linux, swap], workload: "swap-sem:hogs=10,iterations=20,important=fifo", machine: "netfinity-933" },
    "swap-fig6": { words: "VolanoMark with one message a user, among 20 hogs on two CPUs.", schedulers: [linux, swap], workload: "volano:messages=1,hogs=20", machine: "netfinity-933", cpus: "2" },
    "freebsd-pentium4": { words: "A hundredth of a build with two jobs on two hardware threads.", schedulers: [bsd4, ule], workload: "buildworld:jobs=2,scale=0.01,user=1620s,system=270s,io=281ms", machine: "p4-3200e" },
    "freebsd-amd64": { words: "A hundredth of the build on one CPU.", schedulers: [bsd4, ule], workload: "buildworld:jobs=2,scale=0.01,user=1430s,system=354s,io=157ms", machine: "athlon64-3200" },
    "santosa-t6": { words: "MySQL with 64 threads, 256 transactions.", schedulers: [linux26, stairs], workload: "oltp:threads=64,transactions=256", machine: "athlonxp-1800" },
    "santosa-t3": { words: "Apache with 150 clients, 300 requests.", schedulers: [linux26, stairs], workload: "ab:concurrency=150,requests=300", machine: "athlonxp-1800" },
};

/** Seconds of this host that one run may take. Chosen. */
const LIMIT = 120;

/** Metrics that are shown; the laboratory shows all of them. */
const METRICS = 8;

const threads = new Threads();

/** One picture after the other. */
let queue = Promise.resolve();

async function link(live) {
    return `index.html#${await fragment({ ...live, seeds: "1" })}`;
}

function shorter(run) {
    return { ...run, metrics: Object.fromEntries(Object.entries(run.metrics).slice(0, METRICS)) };
}

class Live {
    constructor(box, live) {
        Object.assign(this, { box, live, asked: false });
        this.status = make("p", { role: "status" });
        this.place = make("div", {});
        this.button = make("button", { type: "button", text: "Run", onclick: () => this.ask() });
        const open = make("a", { text: "Open in the laboratory" });
        link(live).then((place) => { open.href = place; });
        box.append(make("p", { text: live.words }), make("div", { class: "actions" }, this.button, open, this.status), this.place);
    }

    ask() {
        if (this.asked) return;
        this.asked = true;
        this.button.disabled = true;
        this.status.textContent = "Waits for the runs above.";
        queue = queue.then(() => this.run());
    }

    async run() {
        this.status.textContent = "Runs.";
        const { workload, machine, cpus, schedulers } = this.live;
        try {
            const since = performance.now();
            const answers = await threads.all(schedulers.map(({ name, settings }) => () => threads.call(LIMIT, "run",
                { scheduler: name, settings, workload, machine, cpus: cpus ? Number(cpus) : undefined, seed: 1, record: true })));
            this.status.textContent = `Made here in ${((performance.now() - since) / 1000).toFixed(1)} s.`;
            const labels = schedulers.map(({ name }) => name);
            this.place.append(figures(labels, answers.map(({ document }) => [shorter(document.runs[0])])));
            for (const [at, { record, traceHash }] of answers.entries()) {
                const details = make("details", {}, make("summary", {}, `The CPUs under ${labels[at]}, trace `, make("code", { class: "hash", text: traceHash })));
                details.addEventListener("toggle", async () => {
                    if (!details.open || details.querySelector("iframe")) return;
                    const page = await threads.call(LIMIT, "view", record, "timeline");
                    details.append(framed(`Timeline of ${labels[at]}`, page, "36rem"));
                });
                this.place.append(details);
            }
        } catch (error) {
            this.status.textContent = error.message;
            this.asked = this.button.disabled = false;
        }
    }
}

const lives = new Map();
for (const box of document.querySelectorAll("[data-figure]")) {
    const live = LIVE[box.dataset.figure];
    if (live) lives.set(box, new Live(box, live));
    else box.remove();
}
const alive = byId("alive");
const watcher = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) if (isIntersecting && alive.checked) lives.get(target).ask();
});
const watch = () => {
    watcher.disconnect();
    for (const box of lives.keys()) watcher.observe(box);
};
alive.addEventListener("change", watch);
watch();
