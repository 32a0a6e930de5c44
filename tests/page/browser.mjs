// Drives the page in Chromium. A line of JSON for each check that fails, and `{"checks":true}` last. Times and memory are printed
// on standard error and never checked.
//
// Argument: a file with `{folder, playwright, chromium, profiles, cases, hostile, shots}`. A case is `{name, scheduler, object, workload,
// params, cpus, seed, duration, hash}`, where `hash` is what the command gave; `shots` is a folder for screenshots, or nothing.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { pathToFileURL } from "node:url";

const config = JSON.parse(await readFile(process.argv[2], "utf8"));
const { chromium } = (await import(pathToFileURL(join(config.playwright, "index.js")))).default;

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"];

/** A hang of the page ends the test; no figure depends on it. */
const PATIENCE = 120_000;

const TYPES = { ".html": "text/html", ".css": "text/css", ".mjs": "text/javascript", ".wasm": "application/wasm", ".svg": "image/svg+xml" };

const server = createServer(async (request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const file = join(config.folder, normalize(path === "/" ? "/index.html" : path));
    try {
        const bytes = await readFile(file);
        response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" }).end(bytes);
    } catch {
        response.writeHead(404).end();
    }
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const origin = `http://127.0.0.1:${server.address().port}`;

let checks = 0;
function check(name, right, problem) {
    checks++;
    if (!right) console.log(JSON.stringify({ name, problem }));
}

const contexts = [];
async function browser(number, options = {}) {
    const context = await chromium.launchPersistentContext(join(config.profiles, String(number)),
        { executablePath: config.chromium, headless: true, args: FLAGS, viewport: { width: 1440, height: 1000 }, ...options });
    context.setDefaultTimeout(PATIENCE);
    contexts.push(context);
    return context;
}

/** A page of which every request and every complaint is noted. */
async function opened(context, place) {
    const page = await context.newPage();
    page.on("console", (message) => {
        if (message.type() === "error") check(place, false, `the console says: ${message.text()}`);
    });
    page.on("pageerror", (error) => check(place, false, `an error: ${error.message}`));
    page.on("request", (request) => {
        const url = request.url();
        const own = url.startsWith(`${origin}/`) || /^(data|blob|about):/.test(url);
        check(place, own, `a request to ${url}`);
    });
    await page.goto(`${origin}/${place}`);
    return page;
}

const ready = (page) => page.locator("#status", { hasText: /^(Ready|Done|Running)/ }).waitFor();
const done = (page) => page.waitForFunction(() => /^Done/.test(document.querySelector("#status").textContent) || !document.querySelector("#error").hidden);

/** The words of an error, or nothing. */
const refused = async (page) => (await page.locator("#error").isVisible()) ? page.locator("#error").textContent() : null;

async function fill(page, test) {
    if (test.object) {
        await page.setInputFiles("#object0", test.object);
        await page.locator("#scheduler0-about", { hasText: "bytes" }).waitFor();
    } else {
        await page.selectOption("#scheduler0", test.scheduler);
    }
    await page.selectOption("#workload", test.workload);
    if (test.params) await page.evaluate(() => { document.querySelector("#params").open = true; });
    for (const [name, value] of Object.entries(test.params ?? {})) await page.fill(`#param-${name}`, value);
    await page.fill("#cpus", String(test.cpus));
    await page.fill("#seeds", String(test.seed));
    await page.fill("#duration", test.duration ?? "");
}

async function run(page, test) {
    await fill(page, test);
    await page.evaluate(() => { document.querySelector("#status").textContent = ""; });
    await page.click("#run");
    await done(page);
    const error = await refused(page);
    return error === null ? page.locator(".hash").first().textContent() : `refused: ${error}`;
}

/** Nothing is wider than the window. */
async function fits(page, name) {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    check(name, wide <= 0, `${wide} pixels are outside the window`);
}

/** The timeline is there. A browser draws a frame when it is seen. */
async function drawn(page) {
    await page.locator("iframe").first().scrollIntoViewIfNeeded();
    await page.frameLocator("iframe").first().locator(".timeline svg rect").first().waitFor();
}

async function shot(page, name) {
    if (config.shots) await page.screenshot({ path: join(config.shots, `${name}.png`), fullPage: true });
}

async function hashes(page) {
    let link = null;
    for (const test of config.cases) {
        const hash = await run(page, test);
        const time = await page.locator("#status").textContent();
        console.error(`${test.name}: ${time}`);
        check(test.name, hash === test.hash, `the hash is ${hash}, the command's is ${test.hash}`);
        if (test.object) link = { url: page.url(), hash, name: test.name };
    }
    return link;
}

/** A link gives another reader the same run. */
async function linked({ url, hash, name }) {
    const page = await opened(await browser("second"), url.slice(origin.length + 1));
    await done(page);
    const seen = await refused(page) ?? await page.locator(".hash").first().textContent();
    check(`link of ${name}`, seen === hash, `the hash is ${seen}, not ${hash}`);
    check(`link of ${name}`, await page.locator(".same").count() === 1, "the page does not say that the hash is the link's");
    await page.close();
}

async function stops(page) {
    await fill(page, { scheduler: "o1", workload: "cpuhog", params: { ttime: "100000s" }, cpus: 4, seed: 1 });
    await page.click("#run");
    await page.locator("#status", { hasText: "Running" }).waitFor();
    await page.click("#stop");
    await page.locator("#status", { hasText: "Stopped" }).waitFor();
    check("stop", await page.locator("#stop").isDisabled(), "Stop can still be pressed");
    // A run that outlasts its time limit ends by itself, with the cure.
    await page.fill("#limit", "1");
    await page.click("#run");
    await page.locator("#error").waitFor();
    check("limit", /time limit/.test(await refused(page)), await refused(page));
    await page.fill("#limit", "60");
}

async function ejected(page) {
    await run(page, config.hostile);
    const words = await page.locator("#results .alert").first().textContent();
    check("ejection", words.includes(config.hostile.words), words);
    check("ejection", await page.locator("[role=tab][aria-selected=true]", { hasText: "Ejection" }).count() === 1, "its tab is not the first");
    await shot(page, "ejection");
    await page.selectOption("#scheduler1", "eevdf");
    await run(page, config.hostile);
    check("void", await page.locator(".standing.void").count() === 1, "no card says that the run is void");
    check("void", await page.locator(".verdict.better, .verdict.worse").count() === 0, "figures of a void run decide");
}

/** A verdict heeds what is wrong with a run of either scheduler, of any seed. */
async function verdicts(page) {
    const seen = await page.evaluate(async () => {
        const { figures } = await import("./figures.mjs");
        const run = (standing, value) => ({
            standing, standing_reasons: standing === "valid" ? [] : ["never_ran"], metrics: { rate: { value, unit: "1", better: "higher" } },
        });
        const of = (standing) => figures(["a", "b"], [[run("valid", 1), run(standing, 1)], [run("valid", 2), run("valid", 2)]]);
        return ["valid", "suspect", "void"].map((standing) => of(standing).querySelector("td.verdict").textContent);
    });
    const right = ["better with all seeds", "better with all seeds (suspect: never_ran)", "no verdict (void: never_ran)"];
    check("verdicts", seen.join("; ") === right.join("; "), seen.join("; "));
}

/** By keys alone: run, then from tab to tab. */
async function keys(page) {
    await page.fill("#limit", "60");
    await fill(page, config.cases[0]);
    await page.selectOption("#scheduler1", "eevdf");
    await page.fill("#seeds", "1..2");
    await page.keyboard.press("Control+Enter");
    await done(page);
    check("two schedulers", await page.locator(".card").count() === 2, "there are not two cards");
    await drawn(page);
    await page.locator("[role=tab]").first().focus();
    for (const name of ["Latencies", "Waits", "Report", "Text"]) {
        await page.keyboard.press("ArrowRight");
        const chosen = await page.locator("[role=tab][aria-selected=true]").textContent();
        check("keys", chosen === name, `${chosen} is chosen, not ${name}`);
    }
    await page.locator("[role=tabpanel]:not([hidden]) pre").waitFor();
    await page.keyboard.press("Home");
}

async function shapes() {
    for (const [scheme, width] of [["light", 1440], ["dark", 1440], ["light", 360], ["dark", 360]]) {
        const context = await browser(`${scheme}${width}`, { viewport: { width, height: 900 }, colorScheme: scheme });
        const page = await opened(context, "#s=o1&s2=eevdf&w=chat:rooms=1,messages=5&m=modern&cpus=4&seeds=1..3");
        await done(page);
        await drawn(page);
        await fits(page, `${width} pixels, ${scheme}`);
        await shot(page, `page-${scheme}-${width}`);
        await page.close();
        const chapter = await opened(context, "thirty-years.html");
        await chapter.locator(".live").first().scrollIntoViewIfNeeded();
        await chapter.locator(".live table").first().waitFor();
        await fits(chapter, `chapter at ${width} pixels, ${scheme}`);
        await shot(chapter, `chapter-${scheme}-${width}`);
        await context.close();
    }
}

async function memory(page) {
    const session = await page.context().newCDPSession(page);
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    console.error(`script memory of the page after its runs: ${(usedSize / 1e6).toFixed(1)} MB`);
}

try {
    const page = await opened(await browser("first"), "");
    await ready(page);
    const link = await hashes(page);
    if (link) await linked(link);
    await stops(page);
    if (config.hostile) await ejected(page);
    await verdicts(page);
    await keys(page);
    await memory(page);
    await shapes();
} catch (error) {
    check("the test", false, error.message);
}
for (const context of contexts) await context.close().catch(() => {});
server.close();
console.log(JSON.stringify({ checks: checks > 0 }));
