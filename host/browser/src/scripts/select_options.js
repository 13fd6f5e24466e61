function(wanted) {
    const list = this.tagName === "SELECT" ? this : this.closest("select") ?? this.control;
    if (!list || list.tagName !== "SELECT") return {problem: "is not a list of options"};
    if (list.disabled) return {problem: "is disabled"};
    const options = [...list.options];
    const clean = text => text.replace(/\s+/g, " ").trim();
    const found = wanted.map(one => options.find(option =>
        !option.disabled && (option.value === one || clean(option.label) === clean(one))));
    const missing = found.indexOf(undefined);
    if (missing >= 0) return {problem: "has no option `" + wanted[missing] + "`",
        options: options.slice(0, 30).map(option => clean(option.label))};
    if (found.length > 1 && !list.multiple) return {problem: "takes one option"};
    list.focus();
    for (const option of options) option.selected = found.includes(option);
    list.dispatchEvent(new Event("input", {bubbles: true, composed: true}));
    list.dispatchEvent(new Event("change", {bubbles: true}));
    return {selected: found.map(option => clean(option.label))};
}
