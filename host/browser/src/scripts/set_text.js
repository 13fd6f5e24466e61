function(text) {
    const kinds = {INPUT: HTMLInputElement, TEXTAREA: HTMLTextAreaElement};
    const kind = kinds[this.tagName];
    if (!kind || ["checkbox", "radio", "file", "button", "submit", "reset", "image"].includes(this.type))
        return "takes no text: <" + (this.tagName ?? "text").toLowerCase() + ">";
    if (this.disabled || this.readOnly) return "is disabled or read-only";
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(this, text);
    this.dispatchEvent(new Event("input", {bubbles: true, composed: true}));
    this.dispatchEvent(new Event("change", {bubbles: true}));
    this.focus();
    return "";
}
