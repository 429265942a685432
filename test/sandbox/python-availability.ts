/** Whether the Python sandbox works on this machine: null, or why tests that need it are skipped. */
import { checkSandbox } from "../../src/sandbox/python-sandbox.ts";

const check = await checkSandbox();

export const skipReason: string | null = check.isAvailable ? null : check.reason;

/** " (skipped: ...)" after the name of a suite, so that the report says why. */
export const skipNote = skipReason === null ? "" : ` (skipped: ${skipReason})`;
