"""The command line on a page: `<!-- commands -->` becomes the help of every command."""

from typing import Any

from typer.main import get_command

from ntkmmd_jax.cli.app import app


def on_page_markdown(text: str, **_: Any) -> str:
    """Every command with its arguments and options."""
    if "<!-- commands -->" not in text:
        return text
    commands = get_command(app).commands
    return text.replace("<!-- commands -->", "\n".join(map(_section, commands.values())))


def _section(command: Any) -> str:
    required = " ".join(f"[{one.name.upper()}]" for one in command.params if _argument(one))
    lines = [f"## {command.name}", "", f"`ntkmmd {command.name} {required}`".replace(" `", "`"), ""]
    lines += [command.help, "", "| | default | |", "|---|---|---|"]
    lines += [_row(one) for one in command.params if one.name != "help"]
    return "\n".join([*lines, ""])


def _argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def _row(parameter: Any) -> str:
    names = [parameter.name.upper()] if _argument(parameter) else parameter.opts
    names = [*names, *parameter.secondary_opts]
    default = parameter.default
    shown = "" if default in (None, (), [], "") or isinstance(default, bool) else f"`{default}`"
    shown = "required" if parameter.required else shown
    said = (parameter.help or "").replace("|", "\\|")
    return f"| {' '.join(f'`{name}`' for name in names)} | {shown} | {said} |"
