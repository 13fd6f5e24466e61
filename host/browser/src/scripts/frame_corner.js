function() {
    let x = 0, y = 0;
    for (let at = this.ownerDocument.defaultView; at; at = at.parent) {
        let frame;
        try { frame = at.frameElement; } catch { break; }
        if (!frame) break;
        const box = frame.getBoundingClientRect();
        x += box.left + frame.clientLeft;
        y += box.top + frame.clientTop;
    }
    return {x, y};
}
