"""Table of the data sets: sizes, classes, sources, checksums and licences."""

from dataclasses import dataclass

_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_NO_LICENCE = "not stated for the data."


def array_name(letter: str, part: str) -> str:
    """Return the name of the array of a part, such as "X_train", in a file and in a Bunch."""
    return f"{letter}_{part}" if part else letter


@dataclass(frozen=True)
class Spec:
    """Facts about a data file."""

    title: str
    filename: str
    # Number of rows of each part ("train", "val", "test"; "" if there are no parts), in the order
    # of `data`.
    rows: dict
    n_features: int
    contents: str
    split: str
    citation: str
    licence: str
    where: str  # place from which a user gets the data
    hint: str = ""  # advice at the end of the error about a missing file
    n_labels: int | None = None  # None if each row has a class, not labels
    classes: tuple | None = None  # class names, unless the file holds them
    class_range: tuple = (0, 9)
    image_order: str | None = None  # None if the rows are not images
    sha256: str | None = None  # checksum of the file
    labels_sha256: str | None = None  # checksum of all labels as C-ordered uint8, in row order
    openml_id: int | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of all parts together."""
        return sum(self.rows.values())

    @property
    def y_key(self) -> str:
        """First letter of the label arrays inside the file."""
        return "y" if self.n_labels is None else "Y"

    @property
    def array_names(self) -> list[str]:
        """Names of the arrays that the file must hold."""
        names = [array_name(k, part) for part in self.rows for k in ("X", self.y_key)]
        if self.n_labels is not None:
            names += ["feature_names", "label_names"]
        elif self.classes is None:
            names += ["class_names"]
        return names


SCENE = Spec(
    title="Scene",
    filename="scene.npz",
    rows={"train": 1211, "test": 1196},
    n_features=294,
    n_labels=6,
    contents="Colour moments of natural scene photographs, in [0, 1], with 6 labels (beach, "
    "sunset, fall foliage, field, mountain, urban); 1.074 labels a row on average.",
    split="the original split, 1211 train and 1196 test rows. Five rows occur in both parts, as "
    "in the source.",
    citation="M. R. Boutell, J. Luo, X. Shen, C. M. Brown. Learning multi-label scene "
    "classification. Pattern Recognition 37(9):1757-1771, 2004.",
    licence=_NO_LICENCE,
    where="OpenML (data set 40595) or the Mulan library (scene-train.arff, scene-test.arff)",
    sha256="84c38ecb7270abadb3cacff9ffa80be246c31bfde2bdcc05b3b47147effd1918",
    labels_sha256="d68b5b15241527b83ab7ab0ae15e2791b3655305fec990139c614f337c8f0eaf",
    openml_id=40595,
)

YEAST = Spec(
    title="Yeast",
    filename="yeast.npz",
    rows={"train": 1500, "test": 917},
    n_features=103,
    n_labels=14,
    contents="Micro-array expression and phylogenetic profiles of yeast genes with 14 groups "
    "of functions as labels; 4.237 labels a row on average.",
    split="the original split, 1500 train and 917 test rows.",
    citation="A. Elisseeff, J. Weston. A kernel method for multi-labelled classification. "
    "NIPS 14, 2001.",
    licence=_NO_LICENCE,
    where="OpenML (data set 40597) or the Mulan library (yeast-train.arff, yeast-test.arff)",
    sha256="b222659824cd36d2803c20cfbaf0dfbf674cbbbc01afadfe8ed71153552c905a",
    labels_sha256="50373e1f232d66205fbd6383b01562e5c09b4bf1fe7a61179fd3d6e7edafbd37",
    openml_id=40597,
)

_MEDIAMILL_CITATION = (
    "C. G. M. Snoek, M. Worring, J. C. van Gemert, J.-M. Geusebroek, A. W. M. Smeulders. The "
    "challenge problem for automated detection of 101 semantic concepts in multimedia. ACM "
    "Multimedia 2006."
)

MEDIAMILL = Spec(
    title="Mediamill",
    filename="mediamill.npz",
    rows={"train": 30993, "test": 12914},
    n_features=120,
    n_labels=101,
    contents="Visual features of video shots with 101 semantic concepts as labels; 4.376 "
    "labels a row on average.",
    split="the original split (experiment 1), 30993 train and 12914 test rows.",
    citation=_MEDIAMILL_CITATION,
    licence=_NO_LICENCE,
    where="the data set collection of the Mulan library (Mediamill, ARFF files), to be "
    "converted to .npz",
    hint='load_mediamill(variant="sample") reads a sample of 2000 rows instead, which must not '
    "be reported as Mediamill results.",
)

MEDIAMILL_SAMPLE = Spec(
    title="Mediamill, sample of 2000 rows",
    filename="mediamill_reduced.npz",
    rows={"train": 1500, "test": 500},
    n_features=120,
    n_labels=101,
    contents="2000 of the 12914 rows of the test part of Mediamill (experiment 1); how they "
    "were drawn is not stated. Results on them must not be reported as Mediamill results. 120 "
    "visual features, 101 labels, 4.394 labels a row on average; 75 rows have no label.",
    split="made with the sample, 1500 train and 500 test rows; not the split of Mulan.",
    citation=_MEDIAMILL_CITATION,
    licence=_NO_LICENCE,
    where="the repository YoungHJung/OnlineMLRBoostingWithVFDT (data/mediamill_reduced, ARFF "
    "files), to be converted to .npz",
    sha256="108d2b7626726371e628f76e89e0489c69907f02f8d867a768b695439c59e814",
    labels_sha256="fbcc4b40272c5882756def18f9a54a4bacb555d8a744466f31a3d64480a6879b",
)

MNIST = Spec(
    title="MNIST",
    filename="mnist.npz",
    rows={"train": 60000, "test": 10000},
    n_features=784,
    classes=_DIGITS,
    image_order="C",
    contents="Handwritten digits, 28 x 28 grey levels in 0..255, 0 = background.",
    split="the original split, 60000 train and 10000 test rows, in the original order.",
    citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to "
    "document recognition. Proc. IEEE 86(11):2278-2324, 1998.",
    licence="not stated by the source of the files; often given as CC BY-SA 3.0.",
    where="OpenML (data set 554)",
    sha256="d2fc8bab397b964798b4c839bd1e705e10a4bb65f4d56a88002229d145796751",
    labels_sha256="671ff9d70b4811116d55c3dd479efa7a981e2e62753ef7a6d5c15fea81e63d27",
    openml_id=554,
)

FASHION_MNIST = Spec(
    title="Fashion-MNIST",
    filename="fashion_mnist.npz",
    rows={"train": 60000, "test": 10000},
    n_features=784,
    classes=_CLOTHES,
    image_order="C",
    contents="Pictures of clothes, 28 x 28 grey levels in 0..255, 0 = background.",
    split="the original split, 60000 train and 10000 test rows, in the original order.",
    citation="H. Xiao, K. Rasul, R. Vollgraf. Fashion-MNIST: a novel image dataset for "
    "benchmarking machine learning algorithms. arXiv:1708.07747, 2017.",
    licence="MIT.",
    where="OpenML (data set 40996)",
    sha256="063002653625f7c01815a5dcda78f6d9c531ea0fd1038ae5e533ab46c7f6075a",
    labels_sha256="8ab940a680640f36c0bf1d2549cb2f3b3d4068c12547116cc7b1161b1d26663d",
    openml_id=40996,
)

CALTECH101_SILHOUETTES = Spec(
    title="Caltech 101 Silhouettes, 28 x 28, split 1",
    filename="caltech101_silhouettes.npz",
    rows={"train": 4100, "val": 2264, "test": 2307},
    n_features=784,
    class_range=(1, 101),
    image_order="F",
    contents="Silhouettes of objects, 28 x 28 binary pixels: 1 = background and 0 = object, as "
    "published (many papers use 1 - X). Pixels are in column-major order: show a row with "
    'row.reshape(28, 28, order="F"). Class labels are 1..101; the name of class c is '
    "class_names[c - 1].",
    split="the published split 1, 4100 train, 2264 validation and 2307 test rows.",
    citation="B. Marlin, K. Swersky, B. Chen, N. de Freitas. Inductive principles for "
    "restricted Boltzmann machine learning. AISTATS 2010. Made from Caltech 101: L. Fei-Fei, "
    "R. Fergus, P. Perona, 2004.",
    licence=_NO_LICENCE,
    where="Benjamin Marlin's data page (caltech101_silhouettes_28_split1.mat), to be converted "
    "to .npz as the docstring of load_caltech101_silhouettes shows",
    sha256="7f0c43535c8980b8d3c0c9073cd23a22915023af182abb981e59861a166b8c6f",
    labels_sha256="0906f270df902e39febe214e1a60f2bbdfb5bda91608eaa494aeae8a133a024f",
)


def _mulan(filename, citation, sha256, **known):
    """Return the `Spec` of a set that the Mulan library ships with its source code."""
    return Spec(
        filename=f"{filename}.npz",
        citation=citation,
        sha256=sha256,
        licence=_NO_LICENCE,
        where=f"the Mulan library (data/multi-label/{filename}, ARFF files), to be converted to "
        ".npz",
        **known,
    )


#: Sets of `load_mulan`.
MULAN = {
    "emotions": _mulan(
        "emotions",
        "K. Trohidis, G. Tsoumakas, G. Kalliris, I. Vlahavas. Multi-label classification of music "
        "into emotions. ISMIR 2008.",
        "cfa9faac2bc2de874da4de01a8553584f6c58d30fa5e6f760a37be16b4ab930f",
        title="Emotions",
        rows={"train": 391, "test": 202},
        n_features=72,
        n_labels=6,
        contents="Rhythm and timbre of songs with 6 moods as labels; 1.869 labels a row on "
        "average.",
        split="the split that the source ships, 391 train and 202 test rows.",
        labels_sha256="c997ec669a905fa29ec8c7e5452262b968d794d9b686f369bce3aeee72cc6c6f",
    ),
    "birds": _mulan(
        "birds",
        "F. Briggs et al. The 9th annual MLSP competition: new methods for acoustic "
        "classification of multiple simultaneous bird species in a noisy environment. MLSP 2013.",
        "020c07f3b82cb2d61aee012304bb2fa3686d8619f9a829af67eac4c8b24cf54e",
        title="Birds",
        rows={"train": 322, "test": 323},
        n_features=260,
        n_labels=19,
        contents="Recordings in a forest with the species heard as labels; 1.014 labels a row on "
        "average, 294 rows have no label. The feature hasSegments is 0/1, and the feature "
        "location is a category, stored as a number 1..13; the scales of the other features "
        "differ by five orders of magnitude.",
        split="the split that the source ships, 322 train and 323 test rows.",
        labels_sha256="d8b064b58899f701825426d3b48aec7fe5d1078c649727da1f705870020a8d7f",
    ),
    "medical": _mulan(
        "medical",
        "J. P. Pestian et al. A shared task involving multi-label classification of clinical free "
        "text. BioNLP 2007.",
        "3664b83a6c976017ccd28ade230afa62737ab23c4d0ce086a86b840c220e79c1",
        title="Medical",
        rows={"train": 333, "test": 645},
        n_features=1449,
        n_labels=45,
        contents="Words, 0/1, of radiology reports with diagnostic codes as labels; 1.245 labels "
        "a row on average. 7 labels occur in no train row.",
        split="the split that the source ships, 333 train and 645 test rows. Two rows occur in "
        "both parts, as in the source.",
        labels_sha256="5d4b76102385a99152fd613dcca812f62da0c0611ff5c8483f45ff08944fbbee",
    ),
    "enron": _mulan(
        "enron",
        "B. Klimt, Y. Yang. The Enron corpus: a new dataset for email classification research. "
        "ECML 2004. Labels: the UC Berkeley Enron email analysis project.",
        "ae7c324ecfa3eec1fa0e55d8215b9e4f844521062a9cfd225ef50cafec1f1992",
        title="Enron",
        rows={"train": 1123, "test": 579},
        n_features=1001,
        n_labels=53,
        contents="Words, 0/1, of messages with topics as labels; 3.378 labels a row on average. 1 "
        "label occurs in no train row.",
        split="the split that the source ships, 1123 train and 579 test rows. Nine rows occur in "
        "both parts, as in the source.",
        labels_sha256="c58000d81a5b7b4ef6411f74385a3a43c5644c811f6588dfdd32a56445e559c4",
    ),
    "genbase": _mulan(
        "genbase",
        "S. Diplaris, G. Tsoumakas, P. Mitkas, I. Vlahavas. Protein classification with multiple "
        "algorithms. PCI 2005.",
        "c899af0bd2a868a43e9714f00ebe91f0dd57369398537b951c83f8d56fee205f",
        title="Genbase",
        rows={"train": 463, "test": 199},
        n_features=1185,
        n_labels=27,
        contents="Motifs, 0/1, of proteins with their families as labels; 1.252 labels a row on "
        "average. The name of the protein, a feature of the source, is left out. 2 labels occur "
        "in no train row, and 157 of the test rows equal a train row in features and labels.",
        split="the split that the source ships, 463 train and 199 test rows.",
        labels_sha256="799cabd53f5680fc62eece026a0417e85b5b6eac145ace7f79f0c1479f0fce36",
    ),
    "cal500": _mulan(
        "cal500",
        "D. Turnbull, L. Barrington, D. Torres, G. Lanckriet. Semantic annotation and retrieval of "
        "music and sound effects. IEEE Transactions on Audio, Speech, and Language Processing "
        "16(2), 2008.",
        "84c72c57f4942443bf7df6107fd13071c310c39e26059dc3cd094bfc3dc5ba3f",
        title="CAL500",
        rows={"": 502},
        n_features=68,
        n_labels=174,
        contents="Timbre of songs with moods, genres, instruments and uses as labels; 26.04 "
        "labels a row on average, and no two rows have the same label set.",
        split="the set has no split.",
        labels_sha256="cc6f69d7323779a60b9409b657e563b89541a893c4b6ffc9ee66033c13ed9cf0",
    ),
}
