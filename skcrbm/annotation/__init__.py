"""Find labels that are probably wrong, and choose the labels to ask for next."""

from skcrbm.annotation._issues import LabelIssues, find_label_issues
from skcrbm.annotation._suggest import LabelSuggestions, suggest_labels

__all__ = ["LabelIssues", "LabelSuggestions", "find_label_issues", "suggest_labels"]
