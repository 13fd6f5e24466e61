// Programs of the machine.
import * as commands from "mimir:tool/commands@1.0.0";

hands.execute = ({ command, args, cwd, timeout, env, stdin }) => {
  const below = (cwd ?? "").replace(/^(?:\.?\/)+/, "").replace(/^\.$/, "");
  const finished = told(() => commands.run({
    program: command,
    arguments: args,
    directory: below === "" ? null : below,
    environment: env,
    stdin: new TextEncoder().encode(stdin ?? ""),
    timeoutMs: timeout === null ? null : Math.max(0, Math.round(timeout) || 0),
  }));
  const text = (bytes) => new TextDecoder().decode(bytes);
  return [{
    exitCode: finished.exitCode,
    success: finished.exitCode === 0,
    stdout: text(finished.stdout),
    stderr: text(finished.stderr),
    truncated: finished.truncated,
    duration: finished.durationMs,
  }];
};

