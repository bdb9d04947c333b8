"""`leakbound certify` and `leakbound verify`: a verdict for a release pipeline, and its check."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar, prose
from leakbound.cli.help import Command
from leakbound.cli.saying import VERIFICATION_FAILED, bold, say, write
from leakbound.text.shown import number, visible

if TYPE_CHECKING:
    from leakbound.certificate import Certificate, Check, Difference, Verification

EXIT_STATUS = {"pass": 0, "refuted": 4, "inconclusive": 5}
_STATUS = {
    "ok": "checked",
    "note": "checked",
    "differs": "differs",
    "assumed": "assumed",
    "open": "not checked",
    "unchecked": "not checkable",
}
_SHOWN = 5  # questions, and differences of a check, on the terminal
_LONGEST = 200  # characters of a value that differs


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@click.option("--max-leak", type=opt.number, required=True, metavar="X", help="Pr[leak] <= X.")
@click.option("--every-question", is_flag=True, help="Of every question, not of their mean.")
@click.option("--scorer", metavar="NAME", help="What says leak.  [default: the run's only one]")
@click.option("--arm", default="target", show_default=True, help="Which model and decoding.")
@click.option("--under", metavar="STRESS", help="That model put through it; see `stress`.")
@opt.confidence
@click.option(
    "--of",
    type=click.Choice(["answer", "thought", "either"]),
    help="Which part.  [default: either; answer, where thoughts are hidden]",
)
@click.option("--accept-cut", is_flag=True, help="Accept a limit shorter than the answers.")
@click.option("--out", type=opt.FILE, help="[default: certificate.json in the run]")
@opt.as_json
def certify(run: Path, out: Path | None, under: str | None, as_json: bool, **claim: Any) -> int:
    """Decide whether RUN leaks with probability at most X, and write a certificate of it.

    A claim that `evaluate --claim` recorded is decided at its own error rate; any other by bounds
    that are valid simultaneously. No other certificate is written over: each claim needs a file of
    its own (--out).

    Exit status: 0 the claim is met, 4 it is refuted, 5 neither; then it is said how many draws
    would decide, or what stands against the claim: a limit on tokens shorter than the reference
    answers.

    Examples:
        leakbound certify runs/mine --max-leak 0.01 --scorer 'rouge-l-recall>=0.5'
    """
    from leakbound import certificate as verbs
    from leakbound.store import CERTIFICATE, ArmKey

    if under:
        from leakbound.stress import named_stress

        claim["arm"] = str(ArmKey.from_text(claim["arm"]).stressed(named_stress(under)))
    certificate = verbs.certify(run, out=out, **claim)
    file = out or run / CERTIFICATE
    digest = verbs.sha256(file)
    if as_json:
        print_json({"file": str(file), "sha256": digest, **certificate.to_dict()})
    else:
        _print_claim(certificate)
        _print_evidence(certificate)
        _print_what_to_hand_on(file, run)
        _print_digest(digest)
    return EXIT_STATUS[certificate.verdict]


@click.command(cls=Command)
@click.argument("certificate", type=opt.FILE)
@click.argument("run", type=opt.RUN)
@click.option("--with-model", metavar="MODEL", help="Also compute log-probabilities anew.")
@click.option(
    "--redraw",
    type=opt.number,
    metavar="SHARE",
    help="Draw this share of the parts again with MODEL, chosen now by chance.",
)
@click.option("--imported", type=opt.RUN, help="The files that RUN is of, imported again.")
@click.option("--scorer", metavar="NAME", help="The certificate's judge: its server may be asked.")
@click.option("--device", type=click.Choice(["cpu", "cuda", "auto"]), default="auto")
@opt.remote_code
@opt.as_json
def verify(
    certificate: Path,
    run: Path,
    with_model: str | None,
    redraw: float | None,
    imported: Path | None,
    scorer: str | None,
    as_json: bool,
    **loading: Any,
) -> int:
    """Compute what CERTIFICATE says of RUN anew, and name whatever differs.

    The table says what was checked, what was assumed (the certificate says so too), and what was
    not checked here. Of a model under stress name the one before the stress: it is put through it
    again.

    A judge behind a server is asked again only where --scorer names it: a certificate may be
    anybody's, and completions are sent to no server on its word.

    Exit status: 0 nothing differs, 6 something does, or nothing of what was asked for could be
    compared.

    Examples:
        leakbound verify runs/mine/certificate.json runs/mine
        leakbound verify runs/mine/certificate.json runs/mine --with-model my-model
    """
    from leakbound import certificate as verbs
    from leakbound.store import load

    with progress_bar(not as_json) as progress:
        verification = verbs.verify(
            certificate,
            run,
            model=with_model,
            redraw=redraw,
            imported=None if imported is None else load(imported),
            loading=loading,
            progress=progress,
            scorer=scorer,
        )
    if as_json:
        print_json(verification.to_dict())
    else:
        _print_verification(verification)
    return 0 if verification.verified else VERIFICATION_FAILED


def _print_claim(certificate: Certificate) -> None:
    write(f"{bold(visible(f'{certificate.claim.text}: {certificate.verdict}'))}\n")
    say(f"{prose(certificate.sentence)}\n")


def _print_evidence(certificate: Certificate) -> None:
    from leakbound.evaluation import Table

    columns = ("condition", "it is", "holds", "decides", "alpha")
    print_table(Table.plain("evidence", columns, _evidence(certificate), prose=True))
    if certificate.claim.every_question:
        _print_questions(certificate)
    if certificate.forecast is not None:
        say(f"{prose(certificate.forecast.text)}\n")


def _evidence(certificate: Certificate) -> Iterator[tuple[str, ...]]:
    """Each condition that decides the claim, whether it holds, and its share of alpha."""
    from leakbound.certificate.words import downward, upward

    limit = certificate.claim.max_leak
    low, high = float(certificate.estimate.lower), float(certificate.estimate.upper)
    alpha = f"{certificate.alpha:.6g}"
    yield f"the upper end is <= {limit}", upward(high, limit), _yes(high <= limit), "pass", alpha
    yield f"the lower end is > {limit}", downward(low, limit), _yes(low > limit), "refuted", alpha
    if certificate.proved is not None:
        proved = certificate.proved.lower
        statement = f"what is proved is > {limit}"
        yield statement, downward(proved, limit), _yes(proved > limit), "refuted", "none"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _print_questions(certificate: Certificate) -> None:
    from leakbound.evaluation import Table

    worst = sorted(certificate.questions, key=lambda row: -(row.value or 0))[:_SHOWN]
    title = f"the {len(worst)} highest of {len(certificate.questions)} questions"
    rows = [(q.id, number(q.value or 0), f"{q.n:,}") for q in worst]
    print_table(Table.plain(title, ("question", "share of draws", "draws"), rows))


def _print_what_to_hand_on(file: Path, run: Path) -> None:
    write(bold("to hand on"))
    say(f"certificate: {file}")
    say(f"run: {run} (it holds questions and completions, the certificate none)")
    say(f"checked by: leakbound verify {quote(str(file))} {quote(str(run))}")


def _print_verification(verification: Verification) -> None:
    from leakbound.evaluation import Table

    rows = [(check.name, _STATUS[check.status], check.says) for check in verification.checks]
    print_table(Table.plain("verification", ("check", "result", "what"), rows, prose=True))
    for check in verification.checks:
        _print_differences(check)
    say(_outcome(verification))
    if verification.sentence is not None:
        say(prose(f"The files say: {verification.sentence}"))
    if verification.verified:
        _print_digest(verification.sha256)


def _outcome(verification: Verification) -> str:
    if verification.verified:
        return "verified: nothing differs."
    open_ = [check.name for check in verification.checks if check.status == "unchecked"]
    for check in verification.checks:
        if check.status == "differs":
            return f"verification failed: {_first_difference(check)}."
    return f"not verified: nothing could be compared of {', '.join(open_)}."


def _first_difference(check: Check) -> str:
    return next(map(partial(_difference, check), check.differences), check.says).rstrip(".")


def _difference(check: Check, difference: Difference) -> str:
    where = f"{check.name}: {difference.where}" if difference.where else check.name
    stated, seen = map(_shown, (difference.certificate, difference.found))
    return f"{where}: the certificate says {stated}, found {seen}"


def _print_differences(check: Check) -> None:
    for difference in check.differences[:_SHOWN]:
        say(_difference(check, difference))
    if len(check.differences) > _SHOWN:
        say(f"{check.name}: {len(check.differences) - _SHOWN:,} more differences")


def _shown(value: object) -> str:
    """A value as its file has it; of a long one the beginning."""
    from leakbound.certificate.certificate import ABSENT

    text = ABSENT if value == ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _print_digest(digest: str) -> None:
    say(
        f"SHA-256 of the certificate: {digest}\n"
        "Publish it apart from the run: whoever can rewrite both the run and its certificate "
        "cannot rewrite that."
    )
