/**
 * A tool that runs a program in a sandbox and answers with what it printed.
 *
 * Every call starts afresh. A program that fails, runs too long or prints too much is answered with what came out and why.
 */
import { z } from "zod";
import type { Sandbox, SandboxResult } from "../../sandbox/sandbox.ts";
import type { Tool, ToolResult } from "./tool.ts";

/** The languages of the built-in sandboxes. */
export type CodeLanguage = "python" | "javascript";

const codeArguments = z.object({ code: z.string().describe("The whole program. Print what you want to see.") });

/** Takes `{ code }`. The sandbox stays with the caller, who closes it. */
export function createCodeTool(language: CodeLanguage, sandbox: Sandbox): Tool {
  const title = language === "python" ? "Python" : "JavaScript";
  return {
    name: language,
    description: `Runs a ${title} program and returns what it prints. Each call starts afresh, without network and files.`,
    parameters: z.toJSONSchema(codeArguments),
    call: async (given, signal) => {
      const parsed = codeArguments.safeParse(given);
      if (!parsed.success) return { kind: "error", text: `${language} needs the argument "code", a text.` };
      return toToolResult(await sandbox.run({ code: parsed.data.code }, signal));
    },
  };
}

function toToolResult(result: SandboxResult): ToolResult {
  if (result.kind === "ok") return { kind: "ok", text: joinLines(result.output, result.errorOutput) };
  return { kind: "error", text: joinLines(result.output, result.errorOutput, endingOf(result)) };
}

function endingOf(result: Exclude<SandboxResult, { readonly kind: "ok" }>): string {
  switch (result.kind) {
    case "failed":
      return result.errorOutput.trim() === "" ? result.error : "";
    case "killed":
      return `The program was ended: ${result.error}`;
    case "timeout":
      return "The program ran too long and was ended.";
    case "memory":
      return "The program used too much memory and was ended.";
    case "output-limit":
      return "The program printed too much and was ended.";
  }
}

function joinLines(...texts: readonly string[]): string {
  return texts
    .map((text) => text.trimEnd())
    .filter((text) => text !== "")
    .join("\n");
}
