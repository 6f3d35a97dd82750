"""Labels that people assign: find wrong labels, and choose the labels to ask for next."""

from skcrbm.annotation._issues import LabelIssues, find_label_issues

__all__ = ["LabelIssues", "find_label_issues"]
