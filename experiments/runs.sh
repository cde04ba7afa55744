#!/bin/sh
# The runs behind the tables and figures, each by its part; what is in results/ is not run again:
#   sh experiments/runs.sh few-shot|full|heterogeneous|homogeneous|ratios|ablations|mtbioner|granularity|relations [OPTION...]
#   sh experiments/runs.sh figures  # of what is in results/
# Options go to every `hardner evaluate` (or, for relations, `curves.py`), e.g. --root FOLDER; those in $TRAIN
# go to every `hardner train` of few-shot, and $TARGETS and $METHODS say which of them are run.
set -e
part=${1:?name a part: few-shot, full, heterogeneous, homogeneous, ratios, ablations, mtbioner, granularity, relations or figures}
shift

# row EXPERIMENT PROTOCOL NAME [OPTION...]: a row of a table.
row() {
    experiment=$1 protocol=$2 name=$3
    shift 3
    hardner evaluate "$experiment" --protocol "$protocol" --name "$name" "$@"
}

case $part in
few-shot) # HGDA, Tables 3 to 5; MetaBioNER, Table 3
    methods="metaner metaner-without-critic maml hgda hgda-nes hgda-both finetuning multitask"
    methods="$methods hgda-transformer hgda-nes-transformer multitask-transformer types"
    for target in ${TARGETS:-disease drug gene species}; do
        for method in ${METHODS:-$methods}; do
            # shellcheck disable=SC2086 # options are words
            hardner train "$method/$target" --out "runs/$method-$target" $TRAIN
            if [ "$method" = types ]; then
                hardner evaluate "runs/$method-$target" --name hardner "$@"
            else
                hardner evaluate "runs/$method-$target" "$@"
            fi
        done
    done
    ;;
full) # MetaBioNER, Table 5; with --vectors FILE from word vectors
    row multitask/full full MultiTask "$@"
    row metaner/full full MetaNER --preset paper "$@" # fits of 20 passes in steps of 128 sentences
    ;;
heterogeneous | ratios) # MetaNER, Table 3; Figures 6 and 7
    set -- --preset best "$@"
    row metaner/heterogeneous "$part" MetaNER "$@"
    row multitask/heterogeneous "$part" In-Domain "$@"
    row multitask/heterogeneous "$part" AGG "$@"
    row finetuning/heterogeneous "$part" FineTuning "$@"
    row multitask/heterogeneous "$part" MultiTask "$@"
    row dann/heterogeneous "$part" DANN "$@"
    row wpz/heterogeneous "$part" WPZ "$@"
    ;;
homogeneous) # MetaNER, Table 2, with genes in place of ACE2005: python experiments/genes.py CORPORA runs/genes
    targets=genes-BC2GM,genes-JNLPBA,genes-BioNLP11ID,genes-BioNLP13PC,genes-CRAFT
    set -- --root runs/genes --corpora $targets --samples 1 "$@"
    row multitask/genes homogeneous D-Shift "$@"
    row multitask/genes homogeneous FineTuning "$@"
    row multitask/genes homogeneous In-Domain "$@"
    row multitask/genes homogeneous AGG "$@"
    row metaner/genes homogeneous MetaNER-Zero "$@"
    row metaner/genes homogeneous MetaNER "$@"
    ;;
ablations) # MetaNER, Figure 8
    set -- --corpora BioNLP13PC --preset best "$@"
    row metaner/heterogeneous heterogeneous MetaNER "$@"
    row metaner-without-critic/heterogeneous heterogeneous "MetaNER w/o critic" "$@"
    row dann/heterogeneous heterogeneous DANN "$@" # without meta-learning
    row metaner-new-only/heterogeneous heterogeneous "MetaNER, theta new only" "$@"
    row metaner-maml/heterogeneous heterogeneous "MetaNER by MAML" "$@"
    row metaner-without-letters/heterogeneous heterogeneous "MetaNER w/o letters" "$@"
    for weight in 0.2 0.4 0.6 0.8; do
        row "metaner-lambda-$weight/heterogeneous" heterogeneous "MetaNER, lambda $weight" "$@"
    done
    ;;
mtbioner) # MT-BioNER, Tables 2 and 3
    row mtbioner/three multitask-3 MT-BioNER "$@"
    row mtbioner/four multitask-4 MT-BioNER "$@"
    row mtbioner/four-in-turn multitask-4 "MT-BioNER, algorithm II" "$@"
    row mtbioner/four-frozen multitask-4 "MT-BioNER, frozen" "$@"
    row mtbioner/four-bilstm multitask-4 "MT-BioNER (BiLSTM)" "$@"
    if [ -d bert-base-cased ]; then
        row mtbioner/four-bert multitask-4 "MT-BioNER (BERT)" "$@"
    fi
    ;;
granularity) # Multi-granularity, Tables 2 to 4
    for corpus in NCBI-disease BC5CDR-chem BC2GM; do
        own=$(echo "$corpus" | tr '[:upper:]' '[:lower:]')
        max="Multi-granularity max"
        row "multigranularity/$own" shares "$max" --corpora "$corpus" "$@"
        row "multigranularity-ner-alone/$own" shares NER --corpora "$corpus" "$@"
        set -- --corpora "$corpus" --shots 1.0 "$@"
        row "multigranularity-cls/$own" shares "Multi-granularity CLS" "$@"
        row "multigranularity-mean/$own" shares "Multi-granularity mean" "$@"
        row "multigranularity-without-bcls/$own" shares "$max w/o bCLS" "$@"
        row "multigranularity-without-mcls/$own" shares "$max w/o mCLS" "$@"
        row "multigranularity-without-mtcls/$own" shares "$max w/o mtCLS" "$@"
        row "multigranularity-alternating/$own" shares "$max w/o joint" "$@"
        shift 4
    done
    ;;
relations) # MT-BioNER, Figure 3; multi-granularity, Figures 4 to 6
    python experiments/study/curves.py multigranularity/ncbi-disease \
        multigranularity/bc5cdr-chem multigranularity/bc2gm \
        --pairs --out results/multigranularity "$@"
    python experiments/study/curves.py mtbioner/four mtbioner/four-in-turn \
        --out results/mtbioner "$@"
    ;;
figures) # of docs/results.md
    hardner plot shots results/few_shot.jsonl --out docs/images/few-shot.svg \
        --row "hardner (transformer, best)" --row "HGDA (transformer, best, adapted by quick)" \
        --row "HGDA (bilstm, best)" --row "MetaNER (bilstm, best)"
    hardner plot ratios results/ratios.jsonl --out docs/images/metaner-ratios.svg
    python experiments/study/plot.py curves results/mtbioner/curves.jsonl --out docs/images/mtbioner-curves.svg
    python experiments/study/plot.py curves results/multigranularity/curves.jsonl --out docs/images/multigranularity-curves.svg
    python experiments/study/plot.py pairs results/multigranularity/curves.jsonl --out docs/images/multigranularity-pairs.svg
    python experiments/study/plot.py tasks results/multigranularity/task_space.jsonl --out docs/images/multigranularity-tasks.svg
    ;;
*)
    echo "no part $part" >&2
    exit 2
    ;;
esac
