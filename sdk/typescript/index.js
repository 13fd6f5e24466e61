// For tests of a tool outside of mimir. `mimir tools build` has its own.
export const defineTool = (tool) => tool;
