import base from "./vitest.config.ts";
const config = base as any;
for (const p of config.test.projects) { p.test.setupFiles = [...(p.test.setupFiles ?? []), "/work/wt/quick/.cpu-setup.ts"]; Object.assign(p.test, { testTimeout: 240000, hookTimeout: 240000}); }
export default { ...config };
