// Changes of files.
hands.write = ({ path, text, base64: data }) => {
  const bytes = data === undefined ? new TextEncoder().encode(text) : bytesOf(data);
  opened(path, { create: true, truncate: true }, { write: true }, (file) => {
    for (let done = 0; done < bytes.length;) {
      const part = bytes.subarray(done, done + PART);
      done += file.write(part.length === bytes.length ? bytes : part.slice(), done);
    }
  });
  return [];
};

hands.mkdir = ({ path }) => {
  const [top] = place(path);
  const above = granted.find(([folder]) => folder === top)[1];
  let made = "";
  for (const part of relative(path).split("/")) {
    made += made === "" ? part : `/${part}`;
    // A granted folder exists.
    if (above === made || above.startsWith(`${made}/`)) continue;
    try {
      at(made, (folder, name) => folder.createDirectoryAt(name));
    } catch (error) {
      if (error.why !== "exist" || look(made, FOLLOW).type !== "directory") throw error;
    }
  }
  return [];
};

function removed(path, recursive) {
  if (look(path, { symlinkFollow: false }).type !== "directory") return at(path, (folder, name) => folder.unlinkFileAt(name));
  if (recursive) {
    for (const { name } of listed(path)) removed(`${path}/${name}`, true);
  }
  at(path, (folder, name) => folder.removeDirectoryAt(name));
}

hands.remove = ({ path, recursive }) => {
  removed(path, recursive);
  return [];
};

