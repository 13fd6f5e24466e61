const value = named in all ? all[named] : all.default?.[named];
const isTool = (tool) => tool !== null && typeof tool === "object" && typeof tool.execute === "function";
const convert = (name, tool) => {
  const made = {
    name: tool.name ?? name,
    description: tool.description ?? tool.title,
    inputSchema: tool.inputSchema ?? tool.parameters,
    execute: (...given) => tool.execute(...given),
  };
  for (const key of ["title", "outputSchema", "needsApproval"]) {
    if (tool[key] !== undefined) made[key] = tool[key];
  }
  if (needs !== null) made.needs = needs;
  return made;
};
const collect = () => {
  if (value === undefined) throw new TypeError(`the package does not export ${named}`);
  if (isTool(value)) return [convert(named, value)];
  if (Array.isArray(value)) return value.map((tool, at) => convert(`${named}_${at + 1}`, tool));
  if (value === null || typeof value !== "object") {
    throw new TypeError(`${named} is not a tool, a list of tools or an object of tools`);
  }
  return Object.entries(value).filter(([, tool]) => isTool(tool)).map(([name, tool]) => convert(name, tool));
};
export default collect();
