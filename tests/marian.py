"Folders as the Hub has them, made by Hugging Face's own library: random weights, real SentencePiece models."
import io
import json
from functools import cache

import sentencepiece as spm
import torch
import transformers  # its models, two seconds, only when they are asked for
from conftest import few_pairs
from safetensors.torch import load_file, save_file
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()


def read(folder):
    "Hugging Face's model and tokenizer of a folder."
    model, tokenizer = transformers.MarianMTModel, transformers.MarianTokenizer
    return model.from_pretrained(folder).eval(), tokenizer.from_pretrained(folder)


@cache
def spm_model(side, kind='unigram'):
    "A SentencePiece model of one language, with the library's own ids: <unk> 0, <s> 1, </s> 2."
    out = io.BytesIO()
    texts = iter([pair[side] for pair in few_pairs(400)])
    spm.SentencePieceTrainer.train(sentence_iterator=texts, model_writer=out, vocab_size=150 + 20*side,
        model_type=kind, minloglevel=2)
    return out.getvalue()


def pieces(model):
    sp = spm.SentencePieceProcessor()
    sp.load_from_serialized_proto(model)
    return [piece for piece in sp.id_to_piece(list(range(sp.vocab_size()))) if piece not in ('<unk>', '<s>', '</s>')]


def table(pieces, tags=()):
    "Ids as OPUS-MT gives them: </s> 0, <unk> 1, padding last."
    return {piece: i for i, piece in enumerate(['</s>', '<unk>', *tags, *dict.fromkeys(pieces), '<pad>'])}


def randomised(model, generator, final_bias, end):
    "Every number drawn anew, biases and gains too."
    d_model = model.config.d_model
    for name, t in model.state_dict().items():
        if 'embed_positions' in name or name == 'final_logits_bias': continue
        std = d_model**-.5 if t.dim() == 2 else .1
        t.copy_(torch.randn(t.shape, generator=generator)*std + ('layer_norm.weight' in name))
    if final_bias:
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator)*.3)
        model.final_logits_bias[0, 0] = end  # </s>


def make(folder, seed=0, layers=(2, 2), d_model=32, h=4, d_ff=64, activation='swish', shared=True, tied=True,
         final_bias=True, end=1.5, learned=False, tags=(), separate=False, tokenizer_config=None):
    "Write such a folder; `end`: the bias of </s>; `learned`: tables of positions, one for each side, for the waves."
    folder.mkdir(parents=True)
    sides = [pieces(spm_model(side)) for side in (0, 1)]
    ids = table(sides[0] + sides[1], tags)
    config = transformers.MarianConfig(
        vocab_size=len(ids), encoder_layers=layers[0], decoder_layers=layers[1], d_model=d_model, encoder_ffn_dim=d_ff,
        decoder_ffn_dim=d_ff, encoder_attention_heads=h, decoder_attention_heads=h, scale_embedding=True,
        activation_function=activation, pad_token_id=len(ids) - 1, decoder_start_token_id=len(ids) - 1,
        eos_token_id=0, forced_eos_token_id=0, share_encoder_decoder_embeddings=shared, tie_word_embeddings=tied,
        max_position_embeddings=128)
    model, generator = transformers.MarianMTModel(config), torch.Generator().manual_seed(seed)
    with torch.no_grad(): randomised(model, generator, final_bias, end)
    model.save_pretrained(folder)
    if learned: learn_positions(folder/'model.safetensors', d_model, generator)
    for side, name in enumerate(('source', 'target')): (folder/f'{name}.spm').write_bytes(spm_model(side))
    write(folder/'vocab.json', ids)
    if separate: write(folder/'target_vocab.json', table(sides[1] + sides[0], tags))  # the same pieces, other ids
    about = {'source_lang': 'en', 'target_lang': 'de', 'separate_vocabs': separate}
    write(folder/'tokenizer_config.json', about | (tokenizer_config or {}))
    generation = {'bad_words_ids': [[len(ids) - 1]], 'num_beams': 4, 'max_length': 128, 'renormalize_logits': True}
    write(folder/'generation_config.json', json.loads((folder/'generation_config.json').read_text()) | generation)
    return folder


def learn_positions(file, d_model, generator):
    state = load_file(file)
    for side in ('encoder', 'decoder'):
        state[f'model.{side}.embed_positions.weight'] = torch.randn(128, d_model, generator=generator)*.3
    save_file(state, file, {'format': 'pt'})


def write(file, value):
    file.write_text(json.dumps(value, ensure_ascii=False), encoding='utf-8')
