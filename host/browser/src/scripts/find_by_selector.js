selector => {
    let found;
    if (selector.startsWith("text=")) {
        const wanted = selector.slice(5).trim().replace(/^"(.*)"$/, "$1").toLowerCase();
        const has = element => (element.innerText ?? element.textContent ?? "").toLowerCase().includes(wanted);
        found = [...document.querySelectorAll("body *")].filter(element =>
            !["SCRIPT", "STYLE"].includes(element.tagName) && has(element) && ![...element.children].some(has));
        const exact = found.filter(element =>
            (element.innerText ?? element.textContent ?? "").trim().toLowerCase() === wanted);
        if (exact.length > 0) found = exact;
    } else {
        found = [...document.querySelectorAll(selector)];
    }
    return found.length === 1 ? found[0] : found.length;
}
