"""`leakbound completion`: what makes a shell complete commands, options and names."""

from __future__ import annotations

from typing import Literal

import click

from leakbound.cli.help import Command

# What readline completes begins behind the last colon; what it is asked is the whole word.
_BASH = """\
_leakbound_completion() {
    local IFS=$'\\n' rest=$COMP_LINE line=() at word whole shown reply kind name files=
    for ((at = 0; at <= COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if ((at)) && [[ $rest != [[:blank:]]* ]]; then
            line[${#line[@]}-1]+=$word
        else
            line+=("$word")
        fi
        rest=${rest#"${rest%%[![:blank:]]*}"}
        rest=${rest#"$word"}
    done
    whole=${line[${#line[@]}-1]}
    shown=${whole%"$2"}
    reply=$(COMP_WORDS="${line[*]}" COMP_CWORD=$((${#line[@]} - 1)) \\
        _LEAKBOUND_COMPLETE=bash_complete "$1")
    COMPREPLY=()
    while IFS=, read -r kind name; do
        case $kind in
            plain) COMPREPLY+=("${name#"$shown"}") ;;
            dir) compopt -o dirnames ;;
            file) files=1 ;;
        esac
    done <<< "$reply"
    if [[ $files ]]; then
        compopt -o filenames
        while read -r name; do COMPREPLY+=("$name"); done < <(compgen -f -- "$2")
    fi
}
complete -o nosort -F _leakbound_completion leakbound
"""
# A name may hold commas, and so may what is said of it.
_FISH = """\
function _leakbound_completion
    set -l word (commandline --current-token --cut-at-cursor)
    set -l line (commandline --cut-at-cursor --current-process)
    set -lx _LEAKBOUND_COMPLETE fish_complete
    set -lx COMP_WORDS "$line"
    set -lx COMP_CWORD "$word"
    for found in (leakbound)
        set -l parts (string split --max 1 , -- $found)
        switch $parts[1]
            case dir
                __fish_complete_directories $word
            case file
                __fish_complete_path $word
            case '*'
                echo $parts[2]
        end
    end
end
complete --no-files --command leakbound --arguments '(_leakbound_completion)'
"""
# A shell that was never configured has no `compdef` yet; compinit itself reads only the first line.
_ZSH_BEGINS = """\
if [[ $zsh_eval_context[-1] != loadautofunc ]] && (( ! $+functions[compdef] )); then
    autoload -Uz compinit && compinit -i
fi
"""


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the script with which SHELL completes commands, options, names and files.

    It asks leakbound itself, so that it knows the benchmarks, scorers and so on of other packages
    too.
    """
    click.echo({"bash": lambda: _BASH, "fish": lambda: _FISH, "zsh": _zsh}[shell](), nl=False)


def _zsh() -> str:
    """Click's own script, which finds what it needs in a bare shell too."""
    from click.shell_completion import ZshComplete

    root = click.get_current_context().find_root().command
    script = ZshComplete(root, {}, "leakbound", "_LEAKBOUND_COMPLETE").source()
    first, _, rest = script.partition("\n")
    return f"{first}\n{_ZSH_BEGINS}{rest}"
