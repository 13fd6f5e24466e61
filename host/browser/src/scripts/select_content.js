function() {
    if (this.nodeType !== 1) return "is not an element";
    if (this.disabled) return "is disabled";
    const name = this.tagName;
    if (name === "INPUT") {
        if (this.readOnly) return "is read-only";
        const kind = this.type;
        if (["checkbox", "radio", "file", "button", "submit", "reset", "image"].includes(kind))
            return "is an input of type " + kind + ", which takes no text";
        if (["color", "date", "time", "datetime-local", "month", "range", "week"].includes(kind)) return "set";
        this.focus(); this.select();
        return "text";
    }
    if (name === "TEXTAREA") {
        if (this.readOnly) return "is read-only";
        this.focus(); this.select();
        return "text";
    }
    if (this.isContentEditable) {
        this.focus();
        const range = this.ownerDocument.createRange();
        range.selectNodeContents(this);
        const selection = this.ownerDocument.defaultView.getSelection();
        selection.removeAllRanges(); selection.addRange(range);
        return "text";
    }
    return "is not a field: <" + name.toLowerCase() + ">";
}
