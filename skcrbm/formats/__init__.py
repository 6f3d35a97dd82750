"""Readers and writers of files of factor graphs; they return arrays and know no energy."""
