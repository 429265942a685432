/** `reroll completion`: a script that completes commands and flags in a shell. */
import { Argument, Command } from "commander";
import { completionScript, type Shell, shells } from "../completion-script.ts";

/** The command, for the program to add. */
export const completionCommand = new Command("completion")
  .description("Print a script that completes commands, flags and runs in a shell.")
  .addArgument(new Argument("<shell>", "the shell").choices(shells))
  .addHelpText(
    "after",
    `
Examples:
  $ eval "$(reroll completion bash)"     # in ~/.bashrc
  $ eval "$(reroll completion zsh)"      # in ~/.zshrc, after compinit
  $ reroll completion fish > ~/.config/fish/completions/reroll.fish`,
  )
  .action((shell: Shell, _flags: object, command: Command) => {
    console.log(completionScript(shell, command.parent ?? command));
  });
