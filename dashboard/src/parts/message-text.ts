/** The text of a message, whatever form its content has. It is shown as it is: nothing in it is markup. */
export function messageText(message: unknown): { readonly speaker: string; readonly text: string } {
  const { role, content, ...rest } = fieldsOf(message);
  const calls = Array.isArray(rest.tool_calls) ? rest.tool_calls.map(callText) : [];
  const thoughts = typeof rest.reasoning_content === "string" ? [`thinks: ${rest.reasoning_content}`] : [];
  const text = typeof content === "string" ? content : content == null ? "" : JSON.stringify(content, null, 2);
  const said = [...thoughts, text, ...calls].filter(Boolean).join("\n");
  return { speaker: typeof role === "string" ? role : "message", text: said };
}

/** A tool as its name and what it takes, such as weather(city). */
export function toolText(tool: unknown): string {
  const { function: offered } = fieldsOf(tool);
  const { name, parameters } = fieldsOf(offered);
  return `${String(name)}(${Object.keys(fieldsOf(fieldsOf(parameters).properties)).join(", ")})`;
}

function callText(call: unknown): string {
  const { name, arguments: given } = fieldsOf(fieldsOf(call).function);
  return `calls ${String(name)} with ${typeof given === "string" ? given : JSON.stringify(given)}`;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
