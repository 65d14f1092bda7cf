"""Tests of programs of stages."""
