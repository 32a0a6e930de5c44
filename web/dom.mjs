// Small helpers for elements. Names come from foreign objects and files, so text is set as text and never as markup.

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/**
 * Makes an element.
 *
 * @param {string} name its tag
 * @param {object} attributes attributes by name; `text` is its text, a function listens (`onclick`)
 * @param {...(Node|string)} children what is in it
 */
export function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (value === undefined || value === null || value === false) continue;
        if (key === "text") element.textContent = shown(value);
        else if (typeof value === "function") element.addEventListener(key.slice(2), value);
        else element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children);
    return element;
}

/** Text without what a browser would interpret: control characters, marks of direction, invisible characters. */
export function shown(text) {
    return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "\ufffd");
}

/** Offers bytes or text as a file. */
export function offer(name, content, type) {
    const url = URL.createObjectURL(new Blob([content], { type }));
    make("a", { href: url, download: name }).click();
    // The browser reads it after this call.
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A self-contained page of a view in a frame that has no origin: it reaches neither this page nor the network. */
export function framed(title, page, height) {
    return make("iframe", { title, sandbox: "allow-scripts", srcdoc: page, style: `height: ${height}` });
}

/**
 * Tabs by the pattern for them: arrow keys, Home and End move, one of them is in the order of Tab.
 *
 * @param {string} label what the tabs are of
 * @param {{name: string, fill: (panel: HTMLElement) => void}[]} tabs a panel is filled when it is first shown
 */
export function tabbed(label, tabs) {
    const id = `tabs${tabbed.count = (tabbed.count ?? 0) + 1}`;
    const row = make("div", { role: "tablist", "aria-label": label });
    const box = make("div", { class: "tabs" }, row);
    const filled = new Set();
    const parts = tabs.map(({ name }, at) => {
        const tab = make("button", { type: "button", role: "tab", id: `${id}-${at}`, "aria-controls": `${id}-${at}-panel`, text: name });
        const panel = make("div", { role: "tabpanel", id: `${id}-${at}-panel`, "aria-labelledby": `${id}-${at}`, tabindex: 0, hidden: true });
        row.append(tab);
        box.append(panel);
        return { tab, panel };
    });
    const show = (chosen) => {
        parts.forEach(({ tab, panel }, at) => {
            tab.setAttribute("aria-selected", at === chosen);
            tab.tabIndex = at === chosen ? 0 : -1;
            panel.hidden = at !== chosen;
        });
        if (filled.has(chosen)) return;
        filled.add(chosen);
        tabs[chosen].fill(parts[chosen].panel);
    };
    parts.forEach(({ tab }, at) => tab.addEventListener("click", () => show(at)));
    row.addEventListener("keydown", (event) => {
        const from = parts.findIndex(({ tab }) => tab === document.activeElement);
        const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: parts.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = (to + parts.length) % parts.length;
        show(next);
        parts[next].tab.focus();
    });
    show(0);
    return box;
}
