function(x, y) {
    if (!this.isConnected) return "gone";
    if (this.disabled) return "disabled";
    const element = this.nodeType === 1 ? this : this.parentElement;
    let hit = element.ownerDocument.elementFromPoint(x, y);
    while (hit?.shadowRoot) {
        const inner = hit.shadowRoot.elementFromPoint(x, y);
        if (!inner || inner === hit) break;
        hit = inner;
    }
    for (let at = hit; at; at = at.parentElement ?? at.getRootNode().host) {
        if (at === element) return "";
        if (at.control === element) return "";
    }
    if (hit && element.contains(hit)) return "";
    if (hit && element.labels && [...element.labels].some(label => label.contains(hit))) return "";
    if (!hit) return "nothing";
    const name = hit.id ? "#" + hit.id : hit.className && typeof hit.className === "string" ?
        "." + hit.className.trim().split(/\s+/).join(".") : "";
    return "<" + hit.tagName.toLowerCase() + name + ">";
}
