() => {
    const read = document => !document?.body ? "" : [document.body.innerText,
        ...[...document.querySelectorAll("iframe")].map(frame => frame.contentDocument ? read(frame.contentDocument) : "")].join("\n");
    return read(document).slice(0, 1_000_000);
}
