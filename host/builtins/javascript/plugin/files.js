// Files, by paths from the root of the workspace.
import * as folders from "wasi:filesystem/preopens@0.2.9";

// The granted folders, by their paths from the root of the workspace; "" is the root itself.
let granted;

const relative = (path) => path.replace(/^(?:\.?\/)+/, "").replace(/\/+$/, "").replace(/^\.$/, "");

// Returns the folder that a path is in, and the path from there.
function place(path) {
  granted ??= folders.getDirectories()
    .filter(([, at]) => at.startsWith(workspace))
    .map(([folder, at]) => [folder, relative(at.slice(workspace.length))])
    .sort(([, one], [, other]) => other.length - one.length);
  const name = relative(path);
  for (const [folder, at] of granted) {
    if (at === "" || name === at) return [folder, at === "" && name !== "" ? name : "."];
    if (name.startsWith(`${at}/`)) return [folder, name.slice(at.length + 1)];
  }
  const message = granted.length === 0
    ? "the tool was not granted any files of the workspace"
    : `\`${path}\` is not in a folder that the tool was granted`;
  throw new HostError({ code: "PERMISSION_DENIED", message });
}

const PLAIN = {
  "no-entry": ["FILE_NOT_FOUND", "does not exist"],
  "exist": ["ALREADY_EXISTS", "exists already"],
  "not-permitted": ["PERMISSION_DENIED", "is not accessible for this tool, or read-only"],
  "access": ["PERMISSION_DENIED", "is not accessible for this tool, or read-only"],
  "read-only": ["PERMISSION_DENIED", "can only be read"],
  "is-directory": ["INVALID_PATH", "is a directory"],
  "not-directory": ["INVALID_PATH", "is not a directory"],
  "not-empty": ["INVALID_INPUT", "is not empty; use `{recursive: true}` to remove its contents as well"],
  "invalid": ["INVALID_PATH", "is not a valid path"],
  "name-too-long": ["INVALID_PATH", "is not a valid path"],
  "loop": ["INVALID_PATH", "is not a valid path"],
  "insufficient-space": ["LIMIT_EXCEEDED", "cannot be written: the disk is full"],
  "quota": ["LIMIT_EXCEEDED", "cannot be written: the disk is full"],
};

function at(path, work) {
  try {
    return work(...place(path));
  } catch (error) {
    const why = payload(error);
    if (typeof why !== "string") throw error;
    const [code, what] = PLAIN[why] ?? ["EXECUTION_ERROR", `cannot be used (${why})`];
    throw Object.assign(new HostError({ code, message: `\`${path}\` ${what}` }), { why });
  }
}

const FOLLOW = { symlinkFollow: true };
const HOW = { create: false, directory: false, exclusive: false, truncate: false };
const ACCESS = {
  read: false, write: false, fileIntegritySync: false, dataIntegritySync: false, requestedWriteSync: false, mutateDirectory: false,
};
const PART = 1 << 20;

function opened(path, how, access, use) {
  return at(path, (folder, name) => {
    const file = folder.openAt(FOLLOW, name, { ...HOW, ...how }, { ...ACCESS, ...access });
    try {
      return use(file);
    } finally {
      drop(file);
    }
  });
}

hands.read = ({ path, text }) => {
  const parts = opened(path, {}, { read: true }, (file) => {
    const parts = [];
    for (let length = 0, end = false; !end;) {
      const [part, last] = file.read(PART, length);
      length += part.length;
      end = last;
      if (part.length > 0) parts.push(part);
    }
    return parts;
  });
  let bytes = parts[0] ?? new Uint8Array();
  if (parts.length > 1) {
    bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let to = 0;
    for (const part of parts) {
      bytes.set(part, to);
      to += part.length;
    }
  }
  return text ? [new TextDecoder().decode(bytes)] : [undefined, bytes];
};

const KINDS = { "regular-file": "file", "directory": "directory", "symbolic-link": "link" };

const listed = (path) => opened(path, { directory: true }, { read: true }, (folder) => {
  const stream = folder.readDirectory();
  try {
    const entries = [];
    for (let entry; (entry = stream.readDirectoryEntry()) != null;) {
      entries.push({ name: entry.name, type: KINDS[entry.type] ?? "other" });
    }
    return entries.sort((one, other) => (one.name < other.name ? -1 : 1));
  } finally {
    drop(stream);
  }
});

const look = (path, flags) => at(path, (folder, name) => folder.statAt(flags, name));

hands.list = ({ path }) => [listed(path)];

hands.stat = ({ path }) => {
  const { type, size, dataModificationTimestamp: modified } = look(path, FOLLOW);
  return [{ type: KINDS[type] ?? "other", size, modified: modified == null ? 0 : modified.seconds * 1000 }];
};

hands.exists = ({ path }) => {
  try {
    look(path, FOLLOW);
    return [true];
  } catch (error) {
    if (error.why === "no-entry" || error.why === "not-directory") return [false];
    throw error;
  }
};

