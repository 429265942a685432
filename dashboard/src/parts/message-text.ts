/** The text of a message, whatever form its content has. It is shown as it is: nothing in it is markup. */
export function messageText(message: unknown): { readonly speaker: string; readonly text: string } {
  const { role, content, ...rest } = (message ?? {}) as Readonly<Record<string, unknown>>;
  const calls = rest.tool_calls === undefined ? "" : `\n${JSON.stringify(rest.tool_calls, null, 2)}`;
  const text = typeof content === "string" ? content : content == null ? "" : JSON.stringify(content, null, 2);
  return { speaker: typeof role === "string" ? role : "message", text: `${text}${calls}` };
}
