/**
 * The messages and tools that a chat template renders.
 *
 * The field names are those of the OpenAI chat format, in snake case, because templates read them by these names.
 */

/** One message of a conversation. Fields beyond these reach the template as they are. */
export interface ChatMessage {
  /** Most templates know system, user, assistant and tool. */
  readonly role: string;
  /** `null` for an assistant message that only calls tools. Parts work with templates that read lists. */
  readonly content?: string | null | readonly ChatContentPart[];
  /** The speaker, or for a tool message the tool that answers. */
  readonly name?: string;
  readonly tool_calls?: readonly ChatToolCall[];
  /** On a tool message: the call that it answers. */
  readonly tool_call_id?: string;
  /** The reasoning of the model before its answer. Many templates leave it out of earlier turns. */
  readonly reasoning_content?: string | null;
}

interface ChatContentPart {
  readonly type: string;
  readonly text?: string;
}

export interface ChatToolCall {
  readonly id?: string;
  readonly type?: "function";
  readonly function: {
    readonly name: string;
    /**
     * The arguments by name, or the JSON text of the OpenAI format. Text reaches a template that knows what to do with it
     * unchanged, so that a turn reads as the model wrote it; for other templates it is parsed first.
     */
    readonly arguments: string | Readonly<Record<string, unknown>>;
  };
}

/** A tool the model may call, described by a JSON schema in the OpenAI format. */
export type ChatTool = Readonly<Record<string, unknown>>;
