import { execFile } from "node:child_process";
import * as files from "node:fs/promises";
import { dirname } from "node:path";
