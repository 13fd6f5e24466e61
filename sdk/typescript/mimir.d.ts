// What the code of a tool is given. In a script: `import type { Context } from "mimir";`, which is taken out again. In a
// plugin there is `defineTool`, too: see README.md beside this file.
//
// Beside `context` there is what the language has, and of the web: fetch, Headers, Response, URL, URLSearchParams,
// AbortController, AbortSignal, DOMException, TextEncoder, TextDecoder, structuredClone, atob, btoa, setTimeout,
// setInterval, queueMicrotask, crypto (getRandomValues, randomUUID), performance and console; of Node there is Buffer and
// nothing else, and no packages. Intl knows en-US and UTC, and refuses others.

declare module "mimir" {
  /** The main function. What it returns is the result: text as it is, anything else as JSON. */
  export type Execute<Args = Record<string, unknown>> = (args: Args, context: Context) => unknown;

  /**
   * A tool of a plugin, as it was written; what it is for is that editors know its types. `mimir tools build FILE.ts`
   * takes every tool that the file exports.
   */
  export function defineTool<Schema>(tool: ToolDefinition<Schema>): ToolDefinition<Schema>;

  export interface ToolDefinition<Schema = any> {
    /** Left out, what it is exported as. A call spells `wordCount` as `word_count`. */
    name?: string;
    title?: string;
    /** A model chooses the tool by it. Left out, the comment before the export. */
    description?: string;
    /** `z.object({…})` of zod 4, another library's that gives JSON Schema, or a JSON Schema of an object. */
    inputSchema: Schema;
    /** Of what `execute` returns, which is handed on as JSON then. */
    outputSchema?: object;
    /**
     * Whether a person is asked about a call; left out, yes. A function is asked about each call, and may look at files.
     * What it says can make the answer stricter at once, and milder once somebody trusts the plugin.
     */
    needsApproval?:
      | boolean
      | "preApproved"
      | "ask"
      | "blocked"
      | ((args: Arguments<Schema>, context: PluginContext) => Approval | Promise<Approval>);
    /** What it returns is the result: text as it is, anything else as JSON. */
    execute(args: Arguments<Schema>, context: PluginContext): unknown;
    /** What it reaches. Left out, what the file mentions of `context`. Asking grants nothing: a person does. */
    needs?: Needs;
    /** How bad a wrong call could be; left out, medium. */
    risk?: "low" | "medium" | "high" | "critical";
    group?: "runtime" | "fs" | "net" | "browser" | "memory" | "system";
    hints?: { readOnly?: boolean; destructive?: boolean; idempotent?: boolean; openWorld?: boolean };
  }

  /** Another name of the same, which says its name. */
  export type NamedTool<Schema = any> = ToolDefinition<Schema> & { name: string };

  export type Approval = boolean | "preApproved" | "ask" | "blocked";

  /** What a schema makes of its input. */
  export type Arguments<Schema> = Schema extends { "~standard": { types?: { output: infer Output } } } ? Output : any;

  export interface Needs {
    /** Folders below the workspace, `.` for all of it; a text is one that is read. */
    files?: (string | { path: string; access?: "read" | "read-write"; reason?: string })[];
    /** Hosts (`api.example.com`, `*.example.com`); a text is one that GET is sent to. */
    hosts?: (string | { host: string; methods?: string[]; reason?: string })[];
    /** Patterns of commands: `git status *`. */
    commands?: (string | { pattern: string; reason?: string })[];
    /**
     * Credentials for a host. `context.env[name]` is a placeholder, which the host replaces by the value in this header
     * of requests to this host.
     */
    secrets?: { name: string; host: string; header: string; reason?: string }[];
    /** Settings of mimir that tools may see, by the name of their variable, in `context.env`. */
    variables?: string[];
    /** Names of other tools. */
    tools?: string[];
    /** Whether it asks the language model. */
    model?: boolean;
  }

  export interface Context {
    platform: Platform;
    /** Sends a request; asked about, and let through to hosts that were granted. */
    fetch: Fetch;
    /** Lines of the tool's log. `console` is the same. */
    logger: Logger;
    config: Config;
    conversation: Conversation;
    progress: Progress;
    tools: Tools;
    storage: Storage;
    llm: Llm;
  }

  /** The context of a tool in a plugin. */
  export interface PluginContext extends Context {
    /** The placeholders of its secrets and the values of its variables, by name. */
    env: Record<string, string>;
  }

  /** Another name of the same. */
  export type ToolContext = Context;

  export interface Platform {
    fs: Files;
    executor: Executor;
    http: Http;
  }

  /** Files of the workspace, by paths from its root. A failure has a `code`, such as FILE_NOT_FOUND. */
  export interface Files {
    readFile(path: string, encoding?: "utf-8" | "utf8" | "base64" | { encoding: "utf-8" | "base64" }): Promise<string>;
    readFile(path: string, encoding: null): Promise<Uint8Array>;
    /** Makes the file, or replaces what was in it. */
    writeFile(path: string, content: string | Uint8Array): Promise<void>;
    exists(path: string): Promise<boolean>;
    /** Names of what is in a folder. */
    list(path?: string): Promise<string[]>;
    readdir(path?: string): Promise<string[]>;
    /** Paths that match: `*` stays within a folder, two of them do not; `{a,b}` is either. */
    glob(pattern: string, options?: { cwd?: string }): Promise<string[]>;
    stat(path: string): Promise<Stat>;
    remove(path: string, options?: { recursive?: boolean }): Promise<void>;
    unlink(path: string, options?: { recursive?: boolean }): Promise<void>;
    /** Makes a folder, and those that it is in. */
    mkdir(path: string): Promise<void>;
  }

  export interface Stat {
    type: "file" | "directory" | "symlink" | "other";
    size: number;
    modified: Date;
    isFile(): boolean;
    isDirectory(): boolean;
  }

  export interface Executor {
    /** Runs a program of the machine, without a shell. `permissions.allowlist` of the file says which. */
    execute(command: Command): Promise<Finished>;
    execute(command: string, args?: string[]): Promise<Finished>;
  }

  export interface Command {
    command: string;
    args?: string[];
    /** From the root of the workspace. */
    cwd?: string;
    /** In milliseconds. */
    timeout?: number;
    env?: Record<string, string>;
    stdin?: string;
    signal?: AbortSignal;
  }

  export interface Finished {
    exitCode: number;
    success: boolean;
    stdout: string;
    stderr: string;
    /** Whether something is missing out of the middle of either. */
    truncated: boolean;
    /** In milliseconds. */
    duration: number;
  }

  export type Fetch = (url: string | URL, options?: FetchOptions) => Promise<Response>;

  export interface FetchOptions {
    method?: string;
    headers?: Record<string, string> | [string, string][] | Headers;
    body?: string | Uint8Array | URLSearchParams | null;
    signal?: AbortSignal;
  }

  export interface Http {
    fetch: Fetch;
    request(options: FetchOptions & { url: string }): Promise<Response>;
    get(url: string, options?: FetchOptions): Promise<Response>;
    /** A body that is an object is sent as JSON. */
    post(url: string, body?: unknown, options?: FetchOptions): Promise<Response>;
    put(url: string, body?: unknown, options?: FetchOptions): Promise<Response>;
    patch(url: string, body?: unknown, options?: FetchOptions): Promise<Response>;
    delete(url: string, body?: unknown, options?: FetchOptions): Promise<Response>;
  }

  export interface Logger {
    debug(...values: unknown[]): void;
    info(...values: unknown[]): void;
    warn(...values: unknown[]): void;
    error(...values: unknown[]): void;
    log(...values: unknown[]): void;
  }

  export interface Config {
    workingDirectory: string;
  }

  export interface Conversation {
    id: string;
    workingDirectory: string;
  }

  export interface Progress {
    /** Tells whoever waits how far it is. */
    report(done: number, total?: number, message?: string): void;
  }

  export interface Tools {
    /** Calls another tool by its name, which has to stand here as a text. */
    call(name: string, args?: Record<string, unknown>): Promise<Called>;
  }

  /** What the tool keeps between calls, its own in each workspace: JSON under names of at most 256 bytes. */
  export interface Storage {
    /** What was kept; `undefined` if nothing was. */
    get(key: string): Promise<any>;
    /** Keeps a value: at most 1 MB, a thousand of them, 16 MB in all. */
    set(key: string, value: unknown): Promise<void>;
    delete(key: string): Promise<void>;
    /** The names that begin with `prefix`, sorted. */
    keys(prefix?: string): Promise<string[]>;
  }

  /** The language model that mimir is set up with; asked about, for what it is asked leaves the machine. */
  export interface Llm {
    complete(prompt: string, options?: { maxTokens?: number }): Promise<string>;
  }

  export interface Called {
    success: boolean;
    output: string;
    structured: unknown;
    exitCode: number | null;
  }
}
