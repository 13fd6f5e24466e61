function() {
    const field = this.control ?? this;
    if (field.tagName === "INPUT" && ["checkbox", "radio"].includes(field.type)) return field.checked;
    const state = field.getAttribute?.("aria-checked");
    return state === null || state === undefined ? null : state === "true";
}
