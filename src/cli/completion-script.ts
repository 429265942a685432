/** Scripts that complete `reroll` in a shell, made from the commands themselves: a program in, the text of a script out. Pure. */
import type { Command, Option } from "commander";

/** The shells that are known. */
export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

export function completionScript(shell: Shell, program: Command): string {
  const commands = [...program.commands.map(describe), help];
  switch (shell) {
    case "bash":
      return bash(commands);
    case "zsh":
      return zsh(commands);
    case "fish":
      return fish(commands);
  }
}

/** What a shell has to know of a command. Those below it count as words that may follow. */
interface Completed {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly options: readonly CompletedOption[];
  readonly takesRuns: boolean;
}

interface CompletedOption {
  readonly flag: string;
  readonly summary: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
}

/** Commander adds it to every program. */
const help: Completed = { name: "help", summary: "Show help.", words: [], options: [], takesRuns: false };

/** Names of arguments that a run folder may stand for. */
const RUN_ARGUMENTS: readonly string[] = ["model", "from", "folder", "runs"];

function describe(command: Command): Completed {
  const all = [command, ...command.commands];
  const args = all.flatMap((each) => [...each.registeredArguments]);
  return {
    name: command.name(),
    summary: command.description(),
    words: [...command.commands.map((each) => each.name()), ...args.flatMap(({ argChoices = [] }) => argChoices)],
    options: [...all.flatMap((each) => each.options.filter(({ hidden }) => !hidden).map(describeOption)), helpOption],
    takesRuns: args.some((argument) => RUN_ARGUMENTS.includes(argument.name())),
  };
}

const helpOption: CompletedOption = { flag: "--help", summary: "show help", takesValue: false, choices: [] };

function describeOption({ long, description, required, optional, argChoices }: Option): CompletedOption {
  return { flag: long ?? "", summary: description, takesValue: required || optional, choices: argChoices ?? [] };
}

function bash(commands: readonly Completed[]): string {
  const values = commands.flatMap(({ name, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flag, choices }) => {
        const reply = choices.length === 0 ? '-f -- "$current"' : `-W "${choices.join(" ")}" -- "$current"`;
        return `    "${name} ${flag}") COMPREPLY=($(compgen ${reply})); return ;;`;
      }),
  );
  const words = commands.map(({ name, words: own, options, takesRuns }) => {
    const flags = options.map(({ flag }) => flag);
    return `    ${name}) words="${[...own, ...flags].join(" ")}"; runs=${takesRuns ? `"$(compgen -d -- "runs/")"` : '""'} ;;`;
  });
  return `# Completes reroll in bash. Put this into ~/.bashrc: eval "$(reroll completion bash)"
_reroll() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="" words="" runs="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in -*) ;; *) command="\${COMP_WORDS[i]}"; break ;; esac
  done
  case "$command $previous" in
${values.join("\n")}
  esac
  case "$command" in
    "") COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(" ")} --help --version --debug" -- "$current")); return ;;
${words.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words $runs" -- "$current"))
  if [[ "$current" != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _reroll reroll
`;
}

function zsh(commands: readonly Completed[]): string {
  const cases = commands.map(({ name, options }) => {
    const specs = options.map(({ flag, summary, takesValue, choices }) => {
      const value = !takesValue ? "" : choices.length === 0 ? ":value:_files" : `:value:(${choices.join(" ")})`;
      return `'${takesValue ? "*" : ""}${flag}[${zshText(summary)}]${value}'`;
    });
    return `    ${name}) _arguments ${[...specs, `'*: :_reroll_${name}'`].join(" ")} ;;`;
  });
  // A function for each, since colons have a meaning where _arguments is told what to do.
  const functions = commands.map(({ name, words, takesRuns }) => {
    const own = words.length === 0 ? [] : [`'words:word:(${words.join(" ")})'`];
    const runs = takesRuns ? ["'runs:run:_path_files -/ -W runs -P runs/'"] : [];
    return `_reroll_${name}() { _alternative ${[...own, ...runs, "'files:file:_files'"].join(" ")} }`;
  });
  return `#compdef reroll
# Completes reroll in zsh. Put this into ~/.zshrc, after compinit: eval "$(reroll completion zsh)"
${functions.join("\n")}
_reroll() {
  local -a commands
  commands=(${commands.map(({ name, summary }) => `'${name}:${zshText(summary)}'`).join(" ")})
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=\${words[2]}
  shift words
  ((CURRENT--))
  case "$command" in
${cases.join("\n")}
  esac
}
compdef _reroll reroll
`;
}

function fish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name, summary, words, options, takesRuns }) => {
    const seen = `complete -c reroll -n '__fish_seen_subcommand_from ${name}'`;
    return [
      `complete -c reroll -n __fish_use_subcommand -f -a ${name} -d '${fishText(summary)}'`,
      ...(words.length === 0 ? [] : [`${seen} -a '${words.join(" ")}'`]),
      ...(takesRuns ? [`${seen} -a '(__fish_complete_directories runs/)'`] : []),
      ...options.map(({ flag, summary: text, takesValue, choices }) => {
        const value = !takesValue ? "" : choices.length === 0 ? " -r" : ` -x -a '${choices.join(" ")}'`;
        return `${seen} -l ${flag.slice(2)}${value} -d '${fishText(text)}'`;
      }),
    ];
  });
  return `# Completes reroll in fish: reroll completion fish > ~/.config/fish/completions/reroll.fish
${lines.join("\n")}
`;
}

/** Inside of single quotes, where brackets and colons have a meaning. */
function zshText(text: string): string {
  return text.replace(/'/g, "'\\''").replace(/[[\]:]/g, "\\$&");
}

function fishText(text: string): string {
  return text.replace(/[\\']/g, "\\$&");
}
