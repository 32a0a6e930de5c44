// Threads for runs: workers that share one compiled module. Each can be ended in the middle of a run.

import { load, SchedlabError } from "./schedlab.mjs";

/** One worker. Calls of it are answered in their order. */
class Thread {
    constructor(module) {
        this.worker = new Worker(new URL("worker.mjs", import.meta.url), { type: "module" });
        this.waiting = new Map();
        this.last = 0;
        this.worker.onmessage = ({ data }) => this.answered(data);
        this.worker.onerror = (event) => this.end(new SchedlabError(event.message || "the worker did not start: reload the page", 1));
        this.worker.postMessage({ module });
    }

    answered({ id, value, error, code }) {
        const { resolve, reject } = this.waiting.get(id);
        this.waiting.delete(id);
        if (error === undefined) resolve(value);
        else reject(new SchedlabError(error, code));
    }

    call(name, ...args) {
        const id = ++this.last;
        return new Promise((resolve, reject) => {
            this.waiting.set(id, { resolve, reject });
            this.worker.postMessage({ id, call: name, args });
        });
    }

    /** Ends the worker; what still waits for it is refused for that reason. */
    end(reason) {
        this.worker.terminate();
        for (const { reject } of this.waiting.values()) reject(reason);
        this.waiting.clear();
    }
}

/** Runs at once. More would need memory rather than CPUs. Chosen. */
const MOST = 4;

const stopped = () => new SchedlabError("stopped", 130);

/** Threads of one page. */
export class Threads {
    constructor() {
        this.busy = new Set();
        this.idle = [];
        this.generation = 0;
    }

    /** One call on a thread of its own; after `limit` seconds of this host's time the thread is ended. */
    async call(limit, name, ...args) {
        const { generation } = this;
        const module = await load();
        if (generation !== this.generation) throw stopped();
        const thread = this.idle.pop() ?? new Thread(module);
        this.busy.add(thread);
        const late = () => thread.end(new SchedlabError(
            `the run took longer than ${limit} s of this host's time: raise the time limit, or give a duration`, 124));
        const timer = limit ? setTimeout(late, limit * 1000) : 0;
        let sound = false;
        try {
            const value = await thread.call(name, ...args);
            sound = true;
            return value;
        } catch (error) {
            // A refusal leaves the thread as it was; an end does not.
            sound = error.code !== 124 && error.code !== 130 && error.code !== 1;
            throw error;
        } finally {
            clearTimeout(timer);
            this.busy.delete(thread);
            if (sound && generation === this.generation && this.idle.length < MOST) this.idle.push(thread);
            else thread.end(stopped());
        }
    }

    /** Makes several calls, a few at once; the first refusal ends them all. */
    async all(jobs) {
        const values = new Array(jobs.length);
        let next = 0;
        const lane = async () => {
            while (next < jobs.length) {
                const at = next++;
                values[at] = await jobs[at]();
            }
        };
        const lanes = Math.min(MOST, navigator.hardwareConcurrency || 2, jobs.length);
        try {
            await Promise.all(Array.from({ length: lanes }, lane));
        } catch (error) {
            next = jobs.length;
            this.stop();
            throw error;
        }
        return values;
    }

    /** Ends what runs. */
    stop() {
        this.generation++;
        for (const thread of this.busy) thread.end(stopped());
    }
}
