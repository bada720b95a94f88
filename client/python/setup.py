"""Builds the package: generates the stubs, and names the versions that the stubs need."""

import pathlib
import shutil
import sys

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import generate_stubs  # noqa: E402

BUILD = HERE / "build"
STUBS = BUILD / "stubs"
SOURCES = HERE.parents[1]

if not (SOURCES / "proto/longstream").is_dir():
    raise SystemExit(f"setup.py: build from a checkout: {SOURCES / 'proto'} is missing")
shutil.rmtree(BUILD, ignore_errors=True)  # it may hold modules that are gone
generate_stubs.generate(SOURCES / "proto", STUBS)
setup(
    version=generate_stubs.version(SOURCES),
    install_requires=generate_stubs.requirements(STUBS),
    packages=["longstream", "longstream.v1"],
    package_dir={"longstream.v1": "build/stubs/longstream/v1"},
    package_data={"longstream": ["py.typed"], "longstream.v1": ["*.pyi"]},
)
