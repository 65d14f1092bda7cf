"""Faults put into the product on purpose, one at a time: which of them do the tests notice?"""
