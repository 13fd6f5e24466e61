// Finds the tools among the exports of a module, when a plugin is built. Faults name the export that they are about.
function examine(make, docs) {
  const made = make({ defineTool: (tool) => tool });
  const { module } = made;
  const KEYS = [
    "name", "title", "description", "inputSchema", "parameters", "outputSchema", "needsApproval", "execute", "needs",
    "risk", "group", "hints",
  ];
  const APPROVALS = { preApproved: "allow", allow: "allow", ask: "ask", blocked: "deny", deny: "deny" };
  const tools = [];
  const faults = [];
  const fault = (name, message) => faults.push({ export: name, message });
  const isObject = (value) => value !== null && typeof value === "object";
  const isTool = (value) => isObject(value) && typeof value.execute === "function";
  const isClass = (value) => /^class\b/.test(Function.prototype.toString.call(value));

  // JSON Schema, in whichever way a library has it.
  function jsonSchema(schema, io) {
    if (!isObject(schema) && typeof schema !== "function") throw new TypeError(`is ${schema === null ? "null" : `a ${typeof schema}`}, not a schema`);
    const standard = schema["~standard"]?.jsonSchema?.[io];
    if (typeof standard === "function") return standard({ target: "draft-2020-12" });
    if (schema._zod !== undefined && made.toJSONSchema) return made.toJSONSchema(schema, { io });
    if (schema._def !== undefined && made.zodToJsonSchema) return made.zodToJsonSchema(schema, { $refStrategy: "none" });
    if (isObject(schema.jsonSchema)) return schema.jsonSchema;
    if (schema._zod !== undefined || schema._def !== undefined) {
      throw new TypeError("is a schema of a zod version without JSON Schema support: run `npm install zod@4`, or `npm install zod-to-json-schema` to go with zod 3");
    }
    if (schema["~standard"] !== undefined) {
      throw new TypeError(`is a schema of ${schema["~standard"].vendor}, which cannot be converted to JSON Schema: write a JSON Schema instead, or use zod 4`);
    }
    if (!("type" in schema) && !("$schema" in schema) && !("properties" in schema)) {
      throw new TypeError("is not a schema: write `z.object({…})`, or a JSON Schema of an object");
    }
    return schema;
  }

  function ofObject(name, what, schema, io) {
    try {
      const { $schema, "~standard": _, ...plain } = JSON.parse(JSON.stringify(jsonSchema(schema, io)));
      if (io === "input" && plain.type !== "object") {
        fault(name, `${what} is a schema of ${plain.type === undefined ? "something" : `a ${plain.type}`}, not of an object: write \`z.object({…})\``);
        return undefined;
      }
      return JSON.stringify(plain);
    } catch (error) {
      fault(name, `${what} ${error instanceof TypeError ? error.message : `cannot be made into JSON Schema: ${error?.message ?? error}`}`);
      return undefined;
    }
  }

  const known = new Set();
  function add(name, tool, path) {
    if (known.has(tool)) return;
    known.add(tool);
    const unknown = Object.keys(tool).filter((key) => !KEYS.includes(key));
    for (const key of unknown) fault(name, `\`${key}\` is not a key of a tool: expected one of ${KEYS.join(", ")}`);
    const label = tool.name ?? (name === "default" ? undefined : name);
    if (typeof label !== "string") return fault(name, "a tool that is exported as `default` needs a `name`");
    const description = tool.description ?? docs[name];
    if (typeof description !== "string" || description.trim() === "") {
      fault(name, `the tool \`${label}\` has no \`description\`: add one, because a model chooses the tool by it`);
    }
    const given = tool.inputSchema ?? tool.parameters;
    if (given === undefined) fault(name, `the tool \`${label}\` has no \`inputSchema\`: add one; without arguments it is \`z.object({})\``);
    const approval = tool.needsApproval;
    const judges = typeof approval === "function";
    const word = approval === undefined || judges ? "ask" : typeof approval === "boolean" ? (approval ? "ask" : "allow") : APPROVALS[approval];
    if (word === undefined) fault(name, "`needsApproval` is not valid: expected a boolean, a function, or one of preApproved, ask, blocked");
    tools.push({
      export: name,
      path,
      name: label,
      title: tool.title ?? null,
      description,
      inputSchema: given === undefined ? undefined : ofObject(name, "`inputSchema`", given, "input"),
      outputSchema: tool.outputSchema === undefined ? null : ofObject(name, "`outputSchema`", tool.outputSchema, "output"),
      approval: word,
      silent: approval === undefined,
      judges,
      needs: tool.needs,
      risk: tool.risk,
      group: tool.group,
      hints: tool.hints,
    });
  }

  for (const [name, value] of Object.entries(module)) {
    if (isTool(value)) add(name, value, [name]);
    else if (name === "default" && Array.isArray(value)) {
      value.forEach((tool, at) => {
        if (isTool(tool)) add(name, tool, [name, at]);
        else fault(name, `tool number ${at + 1} has no function \`execute\``);
      });
    } else if (name === "default" && !(typeof value === "function" && "defaultSchema" in module)) {
      fault(name, "`export default` is not a tool: expected an object with `execute`, or a list of tools");
    } else if (typeof value === "function" && !isClass(value)) {
      const schema = `${name}Schema`;
      if (!(schema in module)) {
        fault(name, `the function \`${name}\` is exported without a schema: export \`${schema}\` too, or do not export the function`);
        continue;
      }
      const inputSchema = ofObject(schema, `\`${schema}\``, module[schema], "input");
      tools.push({
        export: name, path: [name], name, title: null, description: docs[name] ?? `Custom tool: ${name}`,
        inputSchema, outputSchema: null, approval: "ask", silent: true, judges: false,
      });
    } else if (isObject(value) && ("inputSchema" in value || "needsApproval" in value)) {
      fault(name, `\`${name}\` looks like a tool but has no function \`execute\``);
    }
  }
  const used = new Set([...known].map((tool) => tool.inputSchema ?? tool.parameters));
  for (const [name, value] of Object.entries(module)) {
    const of = name.endsWith("Schema") ? name.slice(0, -"Schema".length) : "";
    if (of !== "" && !(of in module) && !used.has(value)) {
      fault(name, `\`${name}\` is the schema of a function \`${of}\`, which is not exported`);
    }
  }
  if (tools.length === 0 && faults.length === 0) {
    fault(null, "the file exports no tools: export a function with its schema (`f` and `fSchema`), or `defineTool({…})`");
  }
  return JSON.stringify({ tools, faults });
}
