#!/bin/sh
# The runs behind the tables and figures, each by its part:
#   sh experiments/runs.sh PART [OPTION...]           # one after the other
#   sh experiments/runs.sh PART --list [OPTION...]    # the commands, one a line, each of which goes
#                                                     # on where it was stopped
#   sh experiments/runs.sh PART --list | python experiments/side_by_side.py - --jobs 8 --minutes 9
#   python experiments/merge.py runs/results/PART/* --into results
#   sh experiments/runs.sh figures                    # of what is in results/
# Options go to every `hardner evaluate` (or `curves.py`), e.g. --root FOLDER; $TRAIN to every
# training, e.g. --train.iterations 3; $TARGETS and $SEEDS say which of them are run. Word vectors
# are vectors.bin, by `hardner pretrain vectors TEXT... --epochs 6 --seed 1 --out vectors.bin`.
#
# In the order of what they are worth, with minutes on one H200 with eight commands at a time;
# ~ where they were not timed yet, but follow from the seconds of committed lines.
#   mtbioner              ~20  MT-BioNER, Tables 2 and 3: eight passes, five types of JNLPBA
#   few-shot              ~60  HGDA, Tables 3 to 5: a model for each K, by the paper's values
#   reproduction          ~30  what the low figures at few sentences come from, one thing at a time
#   seeds                 ~35  five trainings of the compared methods by our own values
#   hardness-search       ~40  temperatures, types as domains, losses in one unit
#   metabioner            ~70  MetaBioNER, Table 3, by its own recipe; five runs with SEEDS
#   confounds             ~35  equal updates: alternating, In-Domain, AGG, MultiTask
#   granularity           ~20  Multi-granularity, Tables 2 to 4
#   granularity-whole     ~90  the same for the paper's passes
#   heterogeneous         ~25  MetaNER, Table 3; its lambda of .8
#   ratios                ~45  MetaNER, Figures 6 and 7
#   ablations             ~10  MetaNER, Figure 8
#   homogeneous           ~10  MetaNER, Table 2, genes in place of ACE2005
#   homogeneous-ratios    ~30  MetaNER, Figures 4 and 5, likewise
#   full                  ~20  MetaBioNER, Table 5
#   relations             ~25  MT-BioNER, Figure 3; multi-granularity, Figures 4 to 6
#   hardness               ~2  HGDA, Table 1; MetaBioNER, Table 4
#   examples              ~12  MetaNER, Table 5; multi-granularity, Table 5
#   small                   0  fit and training of one corpus, an hour of a CPU
#   corpora                 0  tables of statistics, without a GPU
set -e
part=${1:-}
if [ -z "$part" ]; then
    sed -n 's/^# \{0,1\}//p' "$0" | sed '1d'
    exit 2
fi
shift
list=
if [ "${1:-}" = --list ]; then
    list=1
    shift
fi
options=$*
targets=${TARGETS:-disease drug gene species}
seeds=${SEEDS:-0}
vectors="--encoder.vectors vectors.bin"

# go LINE: run it, or show it.
go() {
    if [ "$list" ]; then echo "$1"; else sh -c "$1"; fi
}

# words TEXT...: as part of a file's name.
words() {
    echo "$*" | tr -cs 'A-Za-z0-9.\n' '-' | sed 's/^-*//; s/-*$//'
}

# row EXPERIMENT PROTOCOL NAME [OPTION...]: a row of a table; a folder of results for each command.
row() {
    experiment=$1 protocol=$2 name=$3
    shift 3
    out=runs/results/$part/$(words "$protocol $experiment $name $*")
    go "hardner evaluate $experiment --protocol $protocol --name '$name' --out $out $* $options"
}

# trained METHOD SETTING OPTIONS NAME|SHOTS|PRESET...: train for each seed, then score as often as
# asked; an empty NAME, SHOTS or PRESET is the method's, the protocol's and the run's own.
trained() {
    method=$1 setting=$2 how=$3
    shift 3
    for seed in $seeds; do
        run=runs/$(words "$method $setting $how seed $seed")
        line="hardner train $method/$setting --out $run --seed $seed $how $TRAIN"
        for score in "$@"; do
            name=${score%%|*} rest=${score#*|}
            shots=${rest%%|*} preset=${rest#*|}
            line="$line && hardner evaluate $run --out runs/results/$part/$(words "${run#runs/} $score")"
            line="$line${name:+ --name '$name'}${shots:+ --shots $shots}${preset:+ --preset '$preset'} $options"
        done
        go "$line"
    done
}

case $part in
few-shot) # HGDA, Tables 3 to 5
    for shots in 5 10 20 50 100; do
        for target in $targets; do
            for method in hgda hgda-nes metaner-own maml hgda-nes-queries metaner-own-without-critic; do
                trained $method "$target-$shots" "$vectors" "|$shots|"
            done
        done
    done
    ;;
metabioner) # MetaBioNER, Table 3, by its own recipe; five runs with SEEDS="0 1 2 3 4"
    for shots in 5 10 20 50 100; do
        for target in $targets; do
            trained metabioner "$target-$shots" "" "MetaBioNER|$shots|"
            trained metabioner-nes "$target-$shots" "" "MetaBioNER-NEs|$shots|"
            trained metabioner-metaner "$target-$shots" "" "|$shots|"
            trained metabioner-without-critic "$target-$shots" "" "|$shots|"
        done
    done
    ;;
reproduction) # docs/reproduction.md; HGDA at 5 and 20 sentences, into results/reproduction
    for target in $targets; do
        trained hgda "$target" "$vectors" "paper x paper|5,20|paper" "paper x best|5,20|best" \
            "paper x MetaBioNER|5,20|metabioner" \
            "paper x paper + AdamW|5,20|paper + AdamW" \
            "paper x paper + fast decoder|5,20|paper + fast decoder" \
            "paper x paper + decoder carried over|5,20|paper + decoder carried over" \
            "paper x paper + replacements|5,20|paper + replacements" \
            "paper x paper + negatives|5,20|paper + negatives" \
            "paper x paper + O-bias|5,20|paper + O-bias" \
            "paper x paper + averaging|5,20|paper + averaging"
        trained hgda-best "$target" "" "best x paper|5,20|paper" "best x best|5,20|best" \
            "best x best - fast decoder|5,20|best - fast decoder" \
            "best x best - replacements|5,20|best - replacements" \
            "best x best - negatives|5,20|best - negatives" \
            "best x best - O-bias|5,20|best - O-bias" \
            "best x best - averaging|5,20|best - averaging"
        trained hgda-best-skip "$target" "" "best, skip x paper|5,20|paper" "best, skip x best|5,20|best"
        trained hgda-skip "$target" "" "paper, skip x paper|5,20|paper"
        for rate in 1e-5 1e-4 1e-3; do
            trained hgda-adamw-$rate "$target" "$vectors" "paper, AdamW $rate x paper|5,20|paper"
        done
        trained hgda-unknown-shared "$target" "" "paper, unknown words shared x paper|5,20|paper"
        trained hgda-unknown-zero "$target" "" "paper, unknown words zero x paper|5,20|paper"
        for text in 10 30; do # vectors of a share of the text: vectors-10.bin, vectors-30.bin
            trained hgda "$target" "--encoder.vectors vectors-$text.bin" \
                "paper, $text % of the text x paper|5,20|paper"
        done
        trained hgda "$target" "" "paper, no vectors x paper|5,20|paper"
        trained hgda-long "$target" "$vectors" "paper, 50,000 iterations x paper|5,20|paper"
    done
    ;;
seeds) # the compared methods by our own values, five trainings of each
    seeds=${SEEDS:-0 1 2 3 4}
    own="--preset best --train.rate 0.004 --devel.every 0 --train.iterations 800"
    own="$own --train.per_iteration 480 $vectors"
    for target in $targets; do
        for method in hgda maml metaner-without-critic metaner hgda-nes multitask finetuning; do
            trained $method "$target" "$own" "||"
        done
    done
    ;;
hardness-search) # where hardness may pay, into results/hardness
    for target in $targets; do
        trained hgda "$target" "$vectors" "HGDA|5,20,100|"
        trained maml "$target" "$vectors" "MAML|5,20,100|"
        trained hgda-flatter "$target" "$vectors" "HGDA, temperature 2|5,20,100|"
        trained hgda-sharper "$target" "$vectors" "HGDA, temperature 0.5|5,20,100|"
        trained hgda-sharpest "$target" "$vectors" "HGDA, temperature 0.25|5,20,100|"
        trained hgda-types "$target" "$vectors" "HGDA, types as domains|5,20,100|"
        trained maml-types "$target" "$vectors" "MAML, types as domains|5,20,100|"
        small="--train.iterations 300 --train.tasks 16"
        trained hgda-transformer "$target" "$small" "HGDA|5,20,100|quick"
        trained maml-transformer "$target" "$small" "MAML|5,20,100|quick"
        trained hgda-sentences-transformer "$target" "$small" "HGDA, one unit|5,20,100|quick"
    done
    ;;
transformer) # HGDA's rows with a transformer, and hardner's
    for target in $targets; do
        for method in hgda-transformer hgda-nes-transformer multitask-transformer; do
            trained $method "$target" "" "||"
        done
        trained types "$target" "" "hardner||"
    done
    ;;
full) # MetaBioNER, Table 5
    row multitask/full full MultiTask --vectors vectors.bin
    row metaner/full full MetaNER --preset paper --vectors vectors.bin # fits of 20 passes
    ;;
heterogeneous | ratios) # MetaNER, Table 3; Figures 6 and 7
    row metaner/heterogeneous "$part" MetaNER --preset best # one training for all targets
    row finetuning/heterogeneous "$part" FineTuning --preset best
    row dann/heterogeneous "$part" DANN --preset best
    row wpz/heterogeneous "$part" WPZ --preset best
    for corpus in BioNLP13PC MIT-movie MIT-restaurant re3d SEC-filings; do
        for name in In-Domain AGG MultiTask; do
            row multitask/heterogeneous "$part" $name --preset best --corpora $corpus
        done
    done
    ;;
homogeneous | homogeneous-ratios) # MetaNER, Table 2, Figures 4 and 5: python experiments/genes.py CORPORA runs/genes
    for corpus in genes-BC2GM genes-JNLPBA genes-BioNLP11ID genes-BioNLP13PC genes-CRAFT; do
        own="--root runs/genes --corpora $corpus"
        # shellcheck disable=SC2086 # options are words
        {
            [ "$part" = homogeneous-ratios ] || {
                row multitask/genes "$part" D-Shift $own --samples 1
                row metaner/genes "$part" MetaNER-Zero $own --samples 1
            }
            row metaner/genes "$part" MetaNER $own
            row multitask/genes "$part" FineTuning $own
            row dann/genes "$part" DANN $own
            row wpz/genes "$part" WPZ $own
            row multitask/genes "$part" In-Domain $own --samples 1
            row multitask/genes "$part" AGG $own --samples 1
            row multitask/genes "$part" MultiTask $own --samples 1
        }
    done
    ;;
ablations) # MetaNER, Figure 8
    own="--corpora BioNLP13PC --preset best"
    # shellcheck disable=SC2086
    {
        row metaner/heterogeneous heterogeneous MetaNER $own
        row metaner-without-critic/heterogeneous heterogeneous "MetaNER w/o critic" $own
        row dann/heterogeneous heterogeneous DANN $own # without meta-learning
        row metaner-new-only/heterogeneous heterogeneous "MetaNER, theta new only" $own
        row metaner-maml/heterogeneous heterogeneous "MetaNER by MAML" $own
        row metaner-without-letters/heterogeneous heterogeneous "MetaNER w/o letters" $own
        for weight in 0.2 0.4 0.6 1.0; do
            row "metaner-lambda-$weight/heterogeneous" heterogeneous "MetaNER, lambda $weight" $own
        done
    }
    ;;
mtbioner) # MT-BioNER, Tables 2 and 3
    row mtbioner/four multitask-4 MT-BioNER
    row mtbioner/four-in-turn multitask-4 "MT-BioNER, algorithm II"
    row mtbioner/three multitask-3 MT-BioNER
    row mtbioner/four-frozen multitask-4 "MT-BioNER, frozen"
    row mtbioner/four-bilstm multitask-4 "MT-BioNER (BiLSTM)"
    if [ -d bert-base-cased ]; then
        row mtbioner/four-bert multitask-4 "MT-BioNER (BERT)"
    fi
    ;;
granularity | granularity-whole) # Multi-granularity, Tables 2 to 4; the paper's passes
    for corpus in NCBI-disease BC5CDR-chem BC2GM; do
        own=$(echo "$corpus" | tr '[:upper:]' '[:lower:]')
        max="Multi-granularity max"
        if [ "$part" = granularity-whole ]; then
            row "multigranularity-whole/$own" shares "$max, all passes" --corpora "$corpus" --shots 1.0
            row "multigranularity-ner-alone-whole/$own" shares "NER, all passes" --corpora "$corpus" --shots 1.0
            continue
        fi
        row "multigranularity/$own" shares "$max" --corpora "$corpus"
        row "multigranularity-ner-alone/$own" shares NER --corpora "$corpus"
        for change in cls mean without-bcls without-mcls without-mtcls alternating; do
            case $change in
            cls) name="Multi-granularity CLS" ;;
            mean) name="Multi-granularity mean" ;;
            without-bcls) name="$max w/o bCLS" ;;
            without-mcls) name="$max w/o mCLS" ;;
            without-mtcls) name="$max w/o mtCLS" ;;
            alternating) name="$max w/o joint" ;;
            esac
            row "multigranularity-$change/$own" shares "$name" --corpora "$corpus" --shots 1.0
        done
    done
    ;;
confounds) # equal updates
    for corpus in NCBI-disease BC5CDR-chem BC2GM; do
        own=$(echo "$corpus" | tr '[:upper:]' '[:lower:]')
        row "multigranularity-alternating-equal/$own" shares "Multi-granularity max w/o joint, 4 x" --corpora "$corpus" --shots 1.0
    done
    for name in In-Domain AGG MultiTask; do
        for corpus in BioNLP13PC MIT-movie MIT-restaurant re3d SEC-filings; do
            row multitask-converged/heterogeneous heterogeneous "$name, converged" --preset best --corpora $corpus --samples 1
        done
        for corpus in genes-BC2GM genes-JNLPBA genes-BioNLP11ID genes-BioNLP13PC genes-CRAFT; do
            row multitask-converged/genes homogeneous "$name, converged" --root runs/genes --corpora $corpus --samples 1
        done
    done
    ;;
relations) # MT-BioNER, Figure 3; multi-granularity, Figures 4 to 6
    for corpus in ncbi-disease bc5cdr-chem bc2gm; do
        go "python experiments/study/curves.py multigranularity/$corpus --pairs --out runs/results/multigranularity-$corpus $options"
    done
    go "python experiments/study/curves.py mtbioner/four mtbioner/four-in-turn --out runs/results/mtbioner $options"
    ;;
hardness) # HGDA, Table 1; MetaBioNER, Table 4
    # shellcheck disable=SC2086
    go "hardner train hgda/disease-5 --out runs/hardness $vectors $TRAIN && python experiments/study/hardness.py runs/hardness > results/hardness.json"
    ;;
small) # docs/reproduction.md, without a GPU, into results/cpu: vectors of elife_abstracts.txt.xz, --epochs 2
    options="--samples 5 --corpora NCBI-disease $options"
    for iterations in 1 500; do
        trained hgda disease "$vectors --train.iterations $iterations --devel.every 0 --device cpu" \
            "$iterations iterations x paper|5,20|paper" "$iterations iterations x best|5,20|best"
    done
    ;;
examples) # MetaNER, Table 5; multi-granularity, Table 5; then python experiments/study/examples.py runs/results/examples/*
    row metaner/heterogeneous ratios MetaNER --preset best --shots 0.1 --samples 1 --predictions
    for corpus in NCBI-disease BC5CDR-chem BC2GM; do
        own=$(echo "$corpus" | tr '[:upper:]' '[:lower:]')
        row "multigranularity/$own" shares "Multi-granularity max" --corpora "$corpus" --shots 1.0 --predictions
        row "multigranularity-ner-alone/$own" shares NER --corpora "$corpus" --shots 1.0 --predictions
    done
    ;;
corpora) # tables of statistics
    go "hardner corpora --json --root ${CORPORA:-../shared/corpora} > results/corpora.json"
    go "python experiments/study/sizes.py > results/sizes.json"
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
