/** All screens, with the way to each. */
export const SCREENS = [
  { name: 'live', hash: '#/live' },
  { name: 'live-call', hash: '#/live', act: (page) => page.getByRole('treeitem').nth(3).click() },
  { name: 'questions', hash: '#/questions' },
  { name: 'question-exec', hash: '#/questions', act: async (page) => page.keyboard.press('j') },
  { name: 'questions-none', hash: '#/questions', questions: [] },
  { name: 'record', hash: '#/record' },
  { name: 'record-filters', hash: '#/record?tool=exec&decision=deny', act: (page) => page.getByRole('button', { name: /^Filters/ }).click() },
  { name: 'record-call', hash: '#/record/call/call-99998' },
  { name: 'record-charts', hash: '#/record/charts' },
  { name: 'record-what-if', hash: '#/record/what-if?tool=exec' },
  { name: 'tools', hash: '#/tools' },
  { name: 'tool', hash: '#/tools/list/deploy' },
  { name: 'servers', hash: '#/tools/servers' },
  { name: 'sessions', hash: '#/tools/sessions' },
  { name: 'undo', hash: '#/tools/undo/undo-1' },
  { name: 'workers', hash: '#/tools/workers' },
  { name: 'memory', hash: '#/tools/memory' },
  { name: 'packages', hash: '#/tools/packages' },
  { name: 'policy', hash: '#/policy' },
  { name: 'policy-explain', hash: '#/policy/explain', wait: 600 },
  { name: 'policy-edit', hash: '#/policy/edit' },
  { name: 'policy-least', hash: '#/policy/least' },
];

/** Dialogs, each opened from a screen. */
export const DIALOGS = [
  { name: 'dialog-help', hash: '#/live', act: (page) => page.keyboard.press('?') },
  { name: 'dialog-stop', hash: '#/live', act: (page) => page.keyboard.press('!') },
  { name: 'dialog-pair', hash: '#/live', act: (page) => page.getByRole('button', { name: 'Pair a phone' }).click(), wide: true },
  { name: 'dialog-always', hash: '#/questions', act: (page) => page.getByRole('button', { name: 'Yes, always…' }).click(), wide: true },
  { name: 'dialog-edit', hash: '#/questions', act: (page) => page.getByRole('button', { name: 'Edit…' }).click(), wide: true },
  { name: 'dialog-no', hash: '#/questions', act: (page) => page.getByRole('button', { name: 'No…' }).click() },
  { name: 'dialog-trust', hash: '#/tools/list/deploy', act: (page) => page.getByRole('button', { name: 'Trust…' }).click() },
  { name: 'dialog-undo', hash: '#/tools/undo/undo-1', act: (page) => page.getByRole('button', { name: 'Undo…' }).click() },
  { name: 'dialog-verify', hash: '#/record', act: (page) => page.getByRole('button', { name: 'Verify' }).click() },
  { name: 'dialog-proposal', hash: '#/policy/least', act: (page) => page.getByRole('button', { name: 'Show the change…' }).last().click() },
];
