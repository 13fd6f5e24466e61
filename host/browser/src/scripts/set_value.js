function(value) {
    this.focus();
    this.value = value;
    if (this.value !== value && this.type !== "range" && this.type !== "color")
        return "does not take this value: " + this.type;
    this.dispatchEvent(new Event("input", {bubbles: true, composed: true}));
    this.dispatchEvent(new Event("change", {bubbles: true}));
    return "";
}
