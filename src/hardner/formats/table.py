"""The table of formats: a new one is a row.

Of formats that share an ending, the last is written, and read where no other knows the content.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from hardner.formats import brat, conll, conll_write, docbin, ontonotes, plain, pubtator
from hardner.formats.doccano import DOCCANO
from hardner.formats.format import HOLDABLE, Format
from hardner.formats.jsonl import reader, writer
from hardner.formats.labelstudio import LABELSTUDIO
from hardner.formats.prodigy import PRODIGY
from hardner.formats.rich import RICH


def later(module: str, name: str) -> Callable[..., Any]:
    """A function of a module with heavy imports, which wait until it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(f"hardner.formats.{module}"), name)(*args, **kwargs)

    return call


_ROWS = (
    Format(
        name="ontonotes",
        endings=("gold_conll", ".conll"),
        about="OntoNotes 5 in the layout of CoNLL-2012",
        read=ontonotes.read,
        sniff=ontonotes.sniff,
        folder=True,
    ),
    Format(
        name="pubtator",
        endings=(".pubtator", ".pubtator.txt", ".txt"),
        about="PubTator: titles and abstracts with concepts",
        read=pubtator.read,
        write=pubtator.write,
        sniff=pubtator.sniff,
        holds=frozenset({"ids", "passages", "identifiers", "overlaps"}),
    ),
    Format(
        name="conll",
        endings=(".tsv", ".conll", ".iob", ".iob2", ".bio", ".txt"),
        about="CoNLL: a token and its tag a line",
        read=conll.read,
        write=conll_write.write,
        sniff=conll.sniff,
        holds=frozenset({"sentences"}),
        tagged=True,
    ),
    Format(
        name="brat",
        endings=(".ann",),
        about="BRAT standoff: a folder of .txt and .ann files, or one pair",
        read=brat.read,
        write=brat.write,
        holds=frozenset({"ids", "identifiers", "overlaps", "fragments"}),
        folder=True,
    ),
    Format(
        name="ace",
        endings=(".apf.xml", ".sgm"),
        about="ACE 2005: a folder of .sgm and .apf.xml files, or one pair",
        read=later("ace", "read"),
        sniff=later("ace", "sniff"),
        folder=True,
    ),
    Format(
        name="medline",
        endings=(".xml",),
        about="PubMed's own XML, as in its baseline files",
        read=later("medline", "read"),
        sniff=later("medline", "sniff"),
    ),
    Format(
        name="bioc",
        endings=(".xml",),
        about="BioC XML",
        read=later("bioc", "read_xml"),
        write=later("bioc_write", "write_xml"),
        sniff=later("bioc", "sniff_xml"),
        holds=frozenset(HOLDABLE) - {"sentences"},
    ),
    Format(
        name="biocjson",
        endings=(".bioc.json", ".json"),
        about="BioC JSON",
        read=later("bioc", "read_json"),
        write=later("bioc_write", "write_json"),
        sniff=later("bioc", "sniff_json"),
        holds=frozenset(HOLDABLE) - {"sentences"},
    ),
    Format(
        name="prodigy",
        endings=(),
        about="JSON lines of Prodigy",
        read=reader(PRODIGY),
        write=writer(PRODIGY),
        holds=frozenset({"ids", "sentences", "overlaps"}),
    ),
    Format(
        name="doccano",
        endings=(),
        about="JSON lines of doccano",
        read=reader(DOCCANO),
        write=writer(DOCCANO),
        holds=frozenset({"ids", "overlaps"}),
    ),
    Format(
        name="labelstudio",
        endings=(),
        about="tasks of Label Studio, an array or lines",
        read=reader(LABELSTUDIO),
        write=writer(LABELSTUDIO),
        holds=frozenset({"ids", "overlaps"}),
    ),
    Format(
        name="jsonl",
        endings=(".jsonl", ".ndjson", ".json"),
        about="JSON lines of hardner; also reads those of the three tools above",
        read=reader(LABELSTUDIO, DOCCANO, PRODIGY, RICH),
        write=writer(RICH),
        sniff=lambda head: head.lstrip()[:1] in ("{", "["),
        holds=frozenset(HOLDABLE),
    ),
    Format(
        name="docbin",
        endings=(".spacy",),
        about="DocBin of spaCy (needs hardner[spacy])",
        read=docbin.read,
        write=docbin.write,
        holds=frozenset({"ids", "sentences", "identifiers", "overlaps"}),
    ),
    Format(
        name="parquet",
        endings=(".parquet",),
        about="Parquet, a document a row (needs hardner[ray])",
        read=later("parquet", "read"),
        write=later("parquet", "write"),
        holds=frozenset(HOLDABLE) - {"sentences"},
    ),
    Format(
        name="html",
        endings=(".html",),
        about="a page that shows mentions in place, for people",
        write=later("html", "write"),
        holds=frozenset(HOLDABLE),
    ),
    Format(
        name="text",
        endings=(".txt",),
        about="plain text: a file is a document",
        read=plain.read,
        write=plain.write,
        holds=frozenset({"overlaps"}),
    ),
)

FORMATS = {row.name: row for row in _ROWS}
