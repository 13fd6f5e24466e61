// Types for the code of a tool. In a script: `import type { Context } from "mimir";`, which is removed before it runs. A
// plugin can also use `defineTool`: see README.md in this folder.
//
// Besides `context`, code can use the language itself and these parts of the web platform: fetch, Headers, Response, URL,
// URLSearchParams, AbortController, AbortSignal, DOMException, TextEncoder, TextDecoder, structuredClone, atob, btoa,
// setTimeout, setInterval, queueMicrotask, crypto (getRandomValues, randomUUID), performance and console. From Node, only
// Buffer is available, and no packages. Intl supports en-US and UTC only.

declare module "mimir" {
  /** The main function. Its return value is the result: a string as text, anything else as JSON. */
  export type Execute<Args = Record<string, unknown>> = (args: Args, context: Context) => unknown;

  /**
   * Returns the tool unchanged; it exists so that editors can check its types. `mimir tools build FILE.ts` builds every
   * tool that the file exports.
   */
  export function defineTool<Schema>(tool: ToolDefinition<Schema>): ToolDefinition<Schema>;

  export interface ToolDefinition<Schema = any> {
    /** Default: the name of the export. `wordCount` is called as `word_count`. */
    name?: string;
    title?: string;
    /** Helps a model to choose the tool. Default: the comment before the export. */
    description?: string;
    /** `z.object({…})` of zod 4, a schema of another library that can produce JSON Schema, or a JSON Schema of an object. */
    inputSchema: Schema;
    /** JSON Schema of the return value of `execute`, which is then passed on as JSON. */
    outputSchema?: object;
    /**
     * True if a call needs approval by a person, which is the default. A function decides for each call and may read
     * files. It can always make the decision stricter, and relax it once a person trusts the plugin.
     */
    needsApproval?:
      | boolean
      | "preApproved"
      | "ask"
      | "blocked"
      | ((args: Arguments<Schema>, context: PluginContext) => Approval | Promise<Approval>);
    /** Runs a call. Its return value is the result: a string as text, anything else as JSON. */
    execute(args: Arguments<Schema>, context: PluginContext): unknown;
    /**
     * Files, hosts, commands and other resources that it needs. Default: derived from the uses of `context` in the file.
     * Only a person can grant them.
     */
    needs?: Needs;
    /** Possible damage of a wrong call. Default: medium. */
    risk?: "low" | "medium" | "high" | "critical";
    group?: "runtime" | "fs" | "net" | "browser" | "memory" | "system";
    hints?: { readOnly?: boolean; destructive?: boolean; idempotent?: boolean; openWorld?: boolean };
  }

  /** A tool with an explicit name. */
  export type NamedTool<Schema = any> = ToolDefinition<Schema> & { name: string };

  export type Approval = boolean | "preApproved" | "ask" | "blocked";

  /** The type that a schema produces from its input. */
  export type Arguments<Schema> = Schema extends { "~standard": { types?: { output: infer Output } } } ? Output : any;

  export interface Needs {
    /** Folders below the workspace, `.` for all of it. A string means read access. */
    files?: (string | { path: string; access?: "read" | "read-write"; reason?: string })[];
    /** Hosts (`api.example.com`, `*.example.com`); a string means GET requests. */
    hosts?: (string | { host: string; methods?: string[]; reason?: string })[];
    /** Command patterns: `git status *`. */
    commands?: (string | { pattern: string; reason?: string })[];
    /**
     * Credentials for a host. `context.env[name]` is a placeholder, which mimir replaces with the value in this header of
     * requests to this host.
     */
    secrets?: { name: string; host: string; header: string; reason?: string }[];
    /** Variables that mimir's settings pass to tools, by name, in `context.env`. */
    variables?: string[];
    /** Names of other tools. */
    tools?: string[];
    /** True if it uses the language model. */
    model?: boolean;
  }

  export interface Context {
    platform: Platform;
    /** Sends a request. It goes through the policy, and only hosts that were granted are reachable. */
    fetch: Fetch;
    /** Writes to the tool's log, as `console` does. */
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

  /** Alias of `Context`. */
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
    /** Creates the file or replaces its content. */
    writeFile(path: string, content: string | Uint8Array): Promise<void>;
    exists(path: string): Promise<boolean>;
    /** Names of the entries of a folder. */
    list(path?: string): Promise<string[]>;
    readdir(path?: string): Promise<string[]>;
    /** Paths of files and folders that match: `*` matches within a folder, `**` across folders, `{a,b}` either alternative. */
    glob(pattern: string, options?: { cwd?: string }): Promise<string[]>;
    stat(path: string): Promise<Stat>;
    remove(path: string, options?: { recursive?: boolean }): Promise<void>;
    unlink(path: string, options?: { recursive?: boolean }): Promise<void>;
    /** Creates a folder and its missing parents. */
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
    /** Runs a program of the machine, without a shell. `permissions.allowlist` of the file lists the allowed ones. */
    execute(command: Command): Promise<Finished>;
    execute(command: string, args?: string[]): Promise<Finished>;
  }

  export interface Command {
    command: string;
    args?: string[];
    /** Relative to the workspace root. */
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
    /** True if the middle of either stream was omitted. */
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
    /** An object as the body is sent as JSON. */
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
    /** Reports progress to the caller. */
    report(done: number, total?: number, message?: string): void;
  }

  export interface Tools {
    /** Calls another tool. The name must be a string literal. */
    call(name: string, args?: Record<string, unknown>): Promise<Called>;
  }

  /** Values that the tool stores between calls, separate for each workspace: JSON, by keys of at most 256 bytes. */
  export interface Storage {
    /** Reads a value; `undefined` if the key is not set. */
    get(key: string): Promise<any>;
    /** Stores a value: at most 1 MB each, 1,000 values and 16 MB in total. */
    set(key: string, value: unknown): Promise<void>;
    delete(key: string): Promise<void>;
    /** Lists the keys that begin with `prefix`, sorted. */
    keys(prefix?: string): Promise<string[]>;
  }

  /** The configured language model. Needs approval, because prompts leave the machine. */
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
